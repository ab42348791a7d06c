"""A Kafka and a PostgreSQL as a careful operator runs them: TLS with certificates of our own, passwords, Kafka's authorizer."""

from __future__ import annotations

import datetime
import ipaddress
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from commitlog.local import EmbeddedBroker
from commitlog.local.processes import free_port

_AUTHORIZING = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:commitlog
allow.everyone.if.no.acl.found=false
ssl.keystore.type=PEM
ssl.keystore.location={keys}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
"""


class Certificates(NamedTuple):
    """An authority's certificate, and a server's certificate and key, each in a PEM file; and another authority's."""

    authority: Path
    certificate: Path
    key: Path
    strangers: Path


def make_certificates(folder: Path, *, ends_in_days: int = 1) -> Certificates:
    """Certificates of 127.0.0.1 by an authority that lives for this test."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, authority_key = _certificate("test authority", None)
    server, key = _certificate("127.0.0.1", (authority, authority_key), ends_in_days=ends_in_days)
    stranger, _ = _certificate("another authority", None)
    made = Certificates(*(folder / name for name in ("authority.pem", "server.pem", "server.key", "strangers.pem")))
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    made.strangers.write_bytes(stranger.public_bytes(serialization.Encoding.PEM))
    made.key.touch(mode=0o600)
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


def _certificate(
    name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None, *, ends_in_days: int = 1
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=ends_in_days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        places = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = made.add_extension(x509.SubjectAlternativeName(places), critical=False)
    return made.sign(key if issuer is None else issuer[1], hashes.SHA256()), key


class SecuredBroker(EmbeddedBroker):
    """The embedded broker with TLS and the authorizer; its own user is the super user."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        super().__init__(directory)
        self._certificates = certificates

    @property
    def client_options(self) -> Mapping[str, str]:
        return {
            **super().client_options,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._certificates.authority),
        }

    def _write_configuration(self) -> None:
        super()._write_configuration()
        keys = self._directory / "keys.pem"
        keys.write_bytes(self._certificates.key.read_bytes() + self._certificates.certificate.read_bytes())
        file = self._directory / "server.properties"
        properties = file.read_text().replace("CLIENTS:SASL_PLAINTEXT", "CLIENTS:SASL_SSL")
        file.write_text(properties + _AUTHORIZING.format(keys=keys, authority=self._certificates.authority))

    def options_of(self, user: str, password: str) -> dict[str, str]:
        """Of somebody else, who is made known to the broker."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **self.client_options})
        known = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode()
        )
        admin.alter_user_scram_credentials([known])[user].result(timeout=20)
        return {**self.client_options, "sasl.username": user, "sasl.password": password}


def postgres_with_tls() -> Path:
    """The programs of a PostgreSQL that was built with TLS, which the wheel's is not; Debian's is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "postgresql"], check=True)
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    assert found, "a PostgreSQL with TLS is needed: apt-get install postgresql"
    return found[-1].parent


class SecuredPostgres:
    """A server that takes TCP connections with TLS and a password alone, where no rule of pg_hba.conf says more."""

    def __init__(self, directory: Path, certificates: Certificates, password: str, rules: Sequence[str] = ()) -> None:
        self._directory = directory
        self._certificates = certificates
        self._password = password
        self._rules = rules
        self._programs = postgres_with_tls()
        self._port = free_port()
        # PostgreSQL refuses to run as root.
        self._account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None

    def url(self, database: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        """Of a database, as a client gives it that trusts the authority."""
        account = f"{user}:{password or self._password}"
        options = f"sslmode=verify-full&sslrootcert={quote(str(self._certificates.authority), safe='')}"
        return f"postgresql://{account}@127.0.0.1:{self._port}/{database}?{options}"

    def __enter__(self) -> SecuredPostgres:
        self._directory.mkdir(parents=True)
        password_file = self._directory / "password"
        password_file.write_text(self._password)
        for file in (self._certificates.certificate, self._certificates.key, self._certificates.authority):
            shutil.copyfile(file, self._directory / file.name)
            (self._directory / file.name).chmod(0o600)
        if self._account is not None:
            for path in (self._directory, *self._directory.iterdir()):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
            for folder in self._directory.parents[:-2]:
                folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
        data = self._directory / "data"
        how = ("--auth=scram-sha-256", "--username=postgres", f"--pwfile={password_file}", "--encoding=UTF8")
        self._run("initdb", f"--pgdata={data}", *how, "--no-locale", "--no-sync")
        (data / "pg_hba.conf").write_text("\n".join((*self._rules, "hostssl all all 127.0.0.1/32 scram-sha-256\n")))
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": "",
            "ssl": "on",
            "ssl_cert_file": self._directory / "server.pem",
            "ssl_key_file": self._directory / "server.key",
            "ssl_ca_file": self._directory / "authority.pem",
            "fsync": "off",
        }
        with (data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in options.items())
        self._run("pg_ctl", "start", "--wait", f"--pgdata={data}", f"--log={self._directory / 'log'}")
        return self

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "stop", "--wait", "--mode=immediate", f"--pgdata={self._directory / 'data'}")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            check=False,
            user=self._account and self._account.pw_uid,
            group=self._account and self._account.pw_gid,
        )
        assert done.returncode == 0, f"{program}: {(done.stderr or b'').decode()}"
