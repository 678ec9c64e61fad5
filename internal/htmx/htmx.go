// Package htmx embeds the script with which pages replace parts of themselves with answers of the server. It is the
// unchanged file dist/htmx.min.js of the npm package htmx.org.
package htmx

import _ "embed"

// Version is the version of the npm package.
const Version = "4.0.1"

// Path is where the script is served. It has the version in it, so that browsers may keep the script forever.
const Path = "/static/htmx-" + Version + ".js"

// Script is the script, in JavaScript.
//
//go:embed htmx.min.js
var Script []byte

// Config is the content of a page's meta element htmx-config: the script brings no style, and keeps no history.
const Config = "includeIndicatorCSS:false history:false"
