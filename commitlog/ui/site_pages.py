"""What a log is among several sites: how far it has taken over the others, and which rows are held back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from commitlog.ui.site import Site

HELD_SHOWN = 200


def sites_page(site: Site, request: Request) -> Response:
    """The log among several sites."""
    contents = site.contents()
    with contents.at_once():
        node, digest, held = contents.own_node(), contents.digest(), contents.held_rows(HELD_SHOWN)
    others = [digest[name] for name in sorted(digest)]
    rows = [(each, _shown(each.row), _shown(each.met_row)) for each in held]
    return site.page("sites.html", node=node, others=others, held=rows, shown_max=HELD_SHOWN)


def _shown(row: Mapping[str, Any] | None) -> str | None:
    return None if row is None else json.dumps(row, ensure_ascii=False, default=str)
