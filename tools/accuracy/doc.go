// Command accuracy scores the crawl on pages with known results.
//
// Every page is served on a closed test network inside this process and crawled by the real Crawler, with the
// production client. labels/<group>/<id>.json contains the expected results of a page; labels/README.md explains the
// fields. The groups:
//
//   - saved: real pages that were saved without their images, which are replaced by drawn ones
//   - recorded: real sites with every byte
//   - built: sites written here in the style of site builders and frameworks (sites/<id>)
//   - fresh: sites whose author had not seen the rules, written after the rules (sites/fresh-<id>)
//   - facts: short sites of companies in many countries, labeled with the facts that they state (sites/facts-<id>)
//   - heldout: the same, labeled before the rules were written, by the author of the rules (sites/heldout-<id>)
//   - nsfw, refused: responses that must be distinguished from good pages, and good pages that look similar
//   - accent, shape, theme: thousands of real logo files with a known color, kind or background
//
// The pages of saved and recorded belong to others and are not part of the repository; see testnet.Data. If they are
// missing, the command reports that and scores the other groups.
//
// With -folder it scores the pages of another folder instead, for which no rule was repaired.
//
// It prints a table of fields for each group and every miss, and writes a contact sheet. With -peers it also runs other
// programs on the pages of built and fresh and prints how often each is right. It is run by make accuracy;
// docs/accuracy.md explains what is measured.
package main
