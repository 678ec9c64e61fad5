// Package browser runs the scripts of pages that are empty until then, in an installed Chromium.
//
// The browser is the most powerful component exposed to untrusted content, so it has no access to anything:
//
//   - Every request of the page is intercepted and answered from package safehttp, with its guard, within a
//     number of requests and bytes. Only documents of the page itself, scripts and the data that they request
//     by GET are fetched; images and stylesheets are answered with empty ones, everything else fails.
//   - Connections that bypass the interception (sockets, service workers, frames of other processes,
//     look-ahead, names) find a proxy that does not exist and no names.
//   - Chromium's own sandbox around the processes that parse untrusted content is always on. If Chromium
//     cannot have it, because the system forbids user namespaces and no helper is installed, it does not start,
//     and pages are not rendered.
//   - It never runs as root. If this process is root, on Linux, the browser runs as the user nobody (65534),
//     and, where network namespaces are permitted, in one without any network; if this process cannot switch
//     to that user, or the user may not enter the folder for temporary files, and as root on other systems, New
//     fails with ErrRoot. If this process is another user, the browser runs as the same user, and has no
//     network namespace: only the first two items restrict the network then.
//   - It is restarted for each page, in an empty profile, which is also its home, its working folder and, on
//     Linux, its folder for temporary files, with no environment, with one tab, and is killed with all its
//     processes when the time is over.
package browser
