"""Who may reach the embedded broker: who knows its password, because on a shared machine the port is everybody's.

Clients use SCRAM, so that the password itself never leaves a client, not even to a stranger who has taken the port of a
broker that is down. The controller's port is asked by this broker alone, by PLAIN: SCRAM's credentials are kept by the
controller itself. Both passwords are in files that only this user may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from commitlog.local.passwords import new_password, write_private
from commitlog.local.processes import HOST

USER = "commitlog"
_MECHANISM = "SCRAM-SHA-256"
_SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";'
_PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="{password}" '
    'user_{user}="{password}";'
)
_OPEN_LISTENERS = """\
controller.quorum.voters=1@{host}:{controller_port}
listeners=CLIENTS://{host}:{port},CONTROLLER://{host}:{controller_port}
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT
"""
_CLOSED_LISTENERS = """\
controller.quorum.voters=1@{host}:{controller_port}
listeners=CLIENTS://{host}:{port},CONTROLLER://{host}:{controller_port}
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol={mechanism}
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.sasl.enabled.mechanisms={mechanism}
listener.name.clients.scram-sha-256.sasl.jaas.config={scram}
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={plain}
"""
_FOR_TOOLS = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism={mechanism}
sasl.jaas.config={scram}
"""


class BrokerAccess:
    """The password of the broker in a directory, and what broker and clients have to be told."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "password"
        self._tools_file = directory / "client.properties"
        self._arguments_file = directory / "format.arguments"

    def client_options(self) -> Mapping[str, str]:
        """librdkafka's options of those who may reach it."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": USER,
            "sasl.password": self._password(),
        }

    def listeners(self, port: int, controller_port: int, *, is_open: bool) -> str:
        """The broker's properties of its two ports; open ones are anybody's."""
        if is_open:
            return _OPEN_LISTENERS.format(host=HOST, port=port, controller_port=controller_port)
        known = {"user": USER, "password": self._password()}
        scram, plain = _SCRAM.format(**known), _PLAIN.format(**known)
        return _CLOSED_LISTENERS.format(
            host=HOST, port=port, controller_port=controller_port, mechanism=_MECHANISM, scram=scram, plain=plain
        )

    def make(self) -> str:
        """Make a password where there is none; gives the file with the arguments by which Kafka's tool makes a broker's
        storage know it, for what is on a command line is seen by everybody on the machine."""
        # Who uses a broker whose data was lost goes on knowing its password, and is told what was lost.
        if not self._file.exists():
            write_private(self._file, new_password())
        password = self._password()
        scram = _SCRAM.format(user=USER, password=password)
        write_private(self._tools_file, _FOR_TOOLS.format(mechanism=_MECHANISM, scram=scram))
        write_private(self._arguments_file, f"--add-scram\n{_MECHANISM}=[name={USER},password={password}]\n")
        return str(self._arguments_file)

    def made(self) -> None:
        """The broker's storage has been made."""
        self._arguments_file.unlink(missing_ok=True)

    def _password(self) -> str:
        return self._file.read_text(encoding="ascii").strip()
