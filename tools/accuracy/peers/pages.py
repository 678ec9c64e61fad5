"""Runs trafilatura or favicon, by its argument: a page in a line of JSON, and its fields in another."""

import json
import sys


def trafilatura_fields(page):
    from trafilatura.metadata import extract_metadata

    found = extract_metadata(page["html"], default_url=page["url"])
    if found is None:
        return {}
    return {"name": found.sitename, "description": found.description, "image": found.image}


def icon_fields(page):
    import favicon

    icons = favicon.get(page["url"], timeout=20)  # the largest first
    return {"logo": icons[0].url if icons else None}


read = {"trafilatura": trafilatura_fields, "favicon": icon_fields}[sys.argv[1]]
for line in sys.stdin:
    try:
        fields = read(json.loads(line))
    except Exception as error:  # of a library, about one page
        fields = {"error": repr(error)[:300]}
    print(json.dumps(fields), flush=True)
