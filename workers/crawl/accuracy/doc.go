// Command accuracy scores the crawl on pages whose truth people wrote down.
//
// Every page is served on a closed internet inside this process and crawled by the real Crawler, with the
// product's own client. labels/<group>/<id>.json says what is true of a page; labels/README.md explains the
// fields. The groups:
//
//   - saved: real pages that were kept without their images, which are replaced by drawn ones
//   - recorded: real sites with every byte
//   - built: sites written here in the manner of site builders and frameworks (sites/<id>)
//   - fresh: sites written by somebody who had not seen the rules, when they stood (sites/fresh-<id>)
//   - nsfw, refused: answers that must be told apart from good pages, and good pages that look like them
//   - accent, shape, theme: thousands of real logo files whose color, kind or ground is known
//
// The pages of saved and recorded belong to others and are not part of the repository; see internet.Data. Where
// they are missing, the command says so and scores the other groups.
//
// It prints a table of fields for each group and every miss, and writes a contact sheet to look at. It is
// run by make accuracy.
package main
