// Package browser runs the scripts of pages that are empty until then, in an installed Chromium.
//
// The browser is the most capable thing that strangers can lay hands on here, so it gets nothing of its own:
//
//   - Every request of the page is held and answered from package safehttp, with its guard, within a number
//     of requests and bytes. Only documents of the page itself, scripts and the data that they ask for by GET
//     are fetched; images and stylesheets are answered with empty ones, everything else fails.
//   - What would pass by that (sockets, service workers, frames of other processes, look-ahead, names) finds
//     a proxy that does not exist and no names.
//   - Chromium's own sandbox around the processes that read what strangers wrote is always on. Where Chromium
//     cannot have it, because the system forbids user namespaces and no helper is installed, it does not start,
//     and pages are not drawn.
//   - It never runs as root. Where this process is root, on Linux, the browser runs as the user nobody (65534),
//     and, where network namespaces are permitted, in one without any network; where that user cannot be taken
//     on or may not enter the folder for temporary files, and as root on other systems, New refuses with
//     ErrRoot. Where this process is another user, the browser runs as the same user, and has no network
//     namespace: what holds the network then is the first two lines alone.
//   - It starts anew for each page, in an empty profile, which is also its home, its working folder and, on
//     Linux, its folder for temporary files, with no environment, with one tab, and is killed with all its
//     processes when the time is over.
package browser
