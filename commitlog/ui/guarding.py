"""What every answer says and every request is asked: strict headers, a known host, the token.

Pages load nothing from elsewhere and run no script but our own file, so a name that slipped through unescaped could do
nothing. The host is checked because a page elsewhere may point a name of its own at this machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "commitlog_token"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class StrictHeaders:
    """Gives every answer the headers above, unless the answer has its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_strictly)


class KnownHosts:
    """Turns away requests that name another host than these; with none named, any is known."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._hosts and host_of(Headers(scope=scope)) not in self._hosts:
            refusal = PlainTextResponse("this page is not served under that host name", status_code=421)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def host_of(headers: Headers) -> str:
    """The host that a request names, without its port."""
    host = headers.get("host", "")
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0].lower()


class Token:
    """Lets in whoever has the token: in the address once (from then on a cookie has it), or as ``Authorization: Bearer``."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is not None and self._is_right(given):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            await self._remembered(scope, rest)(scope, receive, send)
        elif self._is_right(_bearer(headers)) or self._is_right(_cookie(headers)):
            await self._app(scope, receive, send)
        else:
            text = (
                "a token is required: open the address that `commitlog ui` printed, or send the token as "
                "Authorization: Bearer"
            )
            refusal = PlainTextResponse(text, status_code=401, headers={"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)

    def _is_right(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _remembered(self, scope: Scope, query: str) -> Response:
        # A path that began with two slashes would lead to another host.
        path = "/" + scope["path"].lstrip("/\\")
        answer = RedirectResponse(path + (f"?{query}" if query else ""), status_code=303)
        is_secure = scope.get("scheme") == "https"
        answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict", secure=is_secure)
        return answer


def _bearer(headers: Headers) -> str | None:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else None


def _cookie(headers: Headers) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value
