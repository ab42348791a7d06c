"""What is wrong with a broker's certificate: librdkafka says the same of one that has expired, of another host's, and of one
whose authority is not trusted."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

CONNECT_TIMEOUT_S = 3.0


def distrusted(bootstrap_servers: str, authority: str | None) -> str | None:
    """Why the first certificate that is not trusted is not; None where TLS has nothing against any that is shown.

    Args:
        bootstrap_servers: whose certificates.
        authority: a PEM file of the authorities that are trusted, or a folder of them; None is the machine's.
    """
    file, folder = (None, authority) if authority is not None and Path(authority).is_dir() else (authority, None)
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        try:
            context = ssl.create_default_context(cafile=file, capath=folder)
            # From 3.13 on, Python refuses what librdkafka takes, as a certificate that does not say which key has signed it.
            context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST
            with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S) as connection:
                context.wrap_socket(connection, server_hostname=host.strip("[]")).close()
        except ssl.SSLCertVerificationError as error:
            return f"{host}:{port} shows a certificate that is not trusted: {error.verify_message.rstrip('.')}"
        except (OSError, ValueError):
            continue
    return None
