// Package uplot embeds the script and the style sheet with which pages draw charts. They are the unchanged files
// dist/uPlot.iife.min.js and dist/uPlot.min.css of the npm package uplot.
package uplot

import _ "embed"

// Version is the version of the npm package.
const Version = "1.6.32"

// Names of the files as they are served. They have the version in them, so that browsers may keep the files forever.
const (
	ScriptName = "uplot-" + Version + ".js"
	StyleName  = "uplot-" + Version + ".css"
)

// Script is the script, in JavaScript.
//
//go:embed uPlot.iife.min.js
var Script []byte

// Style is the style sheet.
//
//go:embed uPlot.min.css
var Style []byte
