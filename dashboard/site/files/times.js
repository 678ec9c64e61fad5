// Shows times in the reader's time zone, copies keys, and leads the key / to the search. The pages are complete without it.
"use strict";
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  // The Swedish form is that of the pages: 2026-11-30 12:00.
  const form = (seconds) => new Intl.DateTimeFormat("sv-SE", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", ...(seconds && {second: "2-digit"}), timeZoneName: "short",
  });
  const minutes = form(false), seconds = form(true);
  const localize = () => {
    for (const time of document.querySelectorAll("time[datetime*=T]")) {
      const utc = time.textContent;
      if (!utc.endsWith(" UTC") || zone === "UTC") continue;
      time.title = utc;
      time.textContent = (utc.split(":").length > 2 ? seconds : minutes).format(new Date(time.dateTime));
    }
    const note = document.getElementById("zone");
    if (note && zone && zone !== "UTC") note.textContent = `Times are in your time zone, ${zone}; months and days of usage are in UTC.`;
  };
  localize();
  document.addEventListener("htmx:after:swap", localize);
  const find = document.querySelector("input[data-find]");
  if (find) document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
    e.preventDefault();
    find.focus();
    find.select();
  });
  if (navigator.clipboard) {
    for (const button of document.querySelectorAll("button[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
        document.getElementById("copied").textContent = "Copied";
      });
    }
  }
})();
