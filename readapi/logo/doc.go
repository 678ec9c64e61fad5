// Package logo draws the logo of a brand as somebody asks for it: which of its logos, how large, in which format,
// or what stands for it when there is none.
//
// Parse reads what was asked for, from path, query and Accept. Choose says which stored file is the one to draw
// from. A Studio draws, and keeps what it drew. None of it knows keys, limits or HTTP answers; package readapi does.
package logo
