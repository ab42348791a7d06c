"""Settings: the order of the sources, and what is said about a wrong value."""

from __future__ import annotations

import json
import pickle
import pwd
from pathlib import Path

import pytest

from commitlog.config import RUN_FILE, Settings, without_password
from commitlog.errors import ConfigurationError
from commitlog.ops.service.runtime import RuntimeStatus, status


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def running_home(tmp_path: Path, **told: object) -> None:
    (tmp_path / ".commitlog").mkdir()
    (tmp_path / ".commitlog" / "run.json").write_text(json.dumps({"pid": 1, **told}))


def test_load_when_nothing_is_set_then_gives_the_defaults(tmp_path: Path) -> None:
    settings = Settings.load(environment={})
    assert settings.log == "main"
    assert settings.home == tmp_path / ".commitlog"
    assert settings.data_path == str(tmp_path / ".commitlog" / "data" / "main")
    assert settings.sources["log"] == "default of log"


def test_load_when_another_log_is_named_then_its_data_path_is_its_own(tmp_path: Path) -> None:
    default = str(tmp_path / ".commitlog" / "data" / "other")
    assert Settings.load(environment={}, log="other").data_path == default
    assert Settings.load(environment={"COMMITLOG_LOG": "other"}).data_path == default
    running_home(tmp_path, log="main", data_path="/lakes/main", bootstrap_servers="run:1")
    assert Settings.load(environment={}).data_path == "/lakes/main"
    assert Settings.load(environment={}, log="main").data_path == "/lakes/main"
    other = Settings.load(environment={}, log="other")
    assert (other.data_path, other.bootstrap_servers) == (default, "run:1")
    assert Settings.load(environment={}, log="other", data_path="/mine").data_path == "/mine"


def test_load_when_several_sources_have_it_then_takes_the_first_in_order(tmp_path: Path) -> None:
    def load(**arguments: object) -> tuple[str, str]:
        settings = Settings.load(environment=environment, **arguments)
        return settings.bootstrap_servers, settings.sources["bootstrap_servers"]

    environment: dict[str, str] = {}
    running_home(tmp_path, bootstrap_servers="run:1")
    assert load() == ("run:1", f"{tmp_path}/.commitlog/run.json: bootstrap_servers")
    (tmp_path / "commitlog.toml").write_text('bootstrap_servers = "file:1"')
    assert load() == ("file:1", "commitlog.toml: bootstrap_servers")
    environment["COMMITLOG_BOOTSTRAP_SERVERS"] = "env:1"
    assert load() == ("env:1", "environment variable COMMITLOG_BOOTSTRAP_SERVERS")
    assert load(bootstrap_servers="arg:1") == ("arg:1", "argument bootstrap_servers")
    assert load(bootstrap_servers=None)[0] == "env:1"


def test_load_when_home_is_set_then_reads_that_home(tmp_path: Path) -> None:
    running_home(tmp_path, database_url="postgresql://here/x")
    settings = Settings.load(environment={"COMMITLOG_HOME": str(tmp_path / "other")})
    assert settings.checkpoint_dir == tmp_path / "other" / "checkpoints"
    assert "127.0.0.1" in settings.database_url


def test_load_when_the_user_has_no_home_then_caches_are_below_that_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    settings = Settings.load(environment={"COMMITLOG_HOME": str(tmp_path / "other")})
    assert settings.cache_dir == tmp_path / "other" / "cache" / "commitlog"
    assert Settings.load(environment={"XDG_CACHE_HOME": "/var/cache"}).cache_dir == Path("/var/cache/commitlog")


@pytest.mark.parametrize("name", ["home", "data_path"])
def test_load_when_a_path_is_below_the_home_of_nobody_then_says_so(name: str) -> None:
    told = f"{name.upper()} is ~no-such-user/lake: there is no home directory ~no-such-user here"
    with pytest.raises(ConfigurationError, match=told):
        Settings.load(environment={f"COMMITLOG_{name.upper()}": "~no-such-user/lake"})


def test_load_when_kafka_options_come_from_several_sources_then_merges_them(tmp_path: Path) -> None:
    (tmp_path / "commitlog.toml").write_text('[kafka]\n"sasl.mechanism" = "PLAIN"\n"enable.ssl.x" = true\n')
    environment = {"COMMITLOG_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "COMMITLOG_KAFKA_PORT": "9999"}
    settings = Settings.load(environment=environment)
    assert settings.kafka == {"sasl.mechanism": "SCRAM-SHA-512", "enable.ssl.x": "true"}
    assert settings.kafka_port == 9999


def test_load_when_a_profile_is_named_then_its_settings_come_right_behind_what_names_it(tmp_path: Path) -> None:
    (tmp_path / "commitlog.toml").write_text(
        'log = "orders"\npartitions = 2\nui_port = 8700\n[kafka]\n"a" = "file"\n"b" = "file"\n'
        '[profile.prod]\nlog = "rides"\npartitions = 3\n[profile.prod.kafka]\n"b" = "prod"\n[profile.dev]\nlog = "trials"\n'
    )
    variables = {"COMMITLOG_PARTITIONS": "5", "COMMITLOG_PROFILE": "dev"}
    by_argument = Settings.load(environment=variables, profile="prod")
    assert (by_argument.log, by_argument.partitions, by_argument.ui_port) == ("rides", 3, 8700)
    assert by_argument.kafka == {"a": "file", "b": "prod"}
    assert by_argument.sources["log"].endswith("commitlog.toml: profile.prod.log")
    assert Settings.load(environment=variables, profile="prod", log="mine").log == "mine"
    by_variable = Settings.load(environment={**variables, "COMMITLOG_PROFILE": "prod"})
    assert (by_variable.log, by_variable.partitions) == ("rides", 5)
    assert Settings.load(environment={}).log == "orders"
    with pytest.raises(
        ConfigurationError, match=r"argument profile is 'test', and .*commitlog.toml: profile has prod, dev"
    ):
        Settings.load(environment={}, profile="test")
    (tmp_path / "commitlog.toml").unlink()
    with pytest.raises(ConfigurationError, match=r"COMMITLOG_PROFILE is 'dev', and commitlog.toml is not there in"):
        Settings.load(environment=variables)
    with pytest.raises(
        ConfigurationError, match=r"profile is 'dev', and commitlog.toml is not there in .* \[profile.dev\]"
    ):
        Settings.load(environment={}).of_profile("dev")


def test_environment_when_given_to_a_child_then_it_loads_equal_settings(tmp_path: Path) -> None:
    settings = Settings.load(
        environment={}, log="orders", partitions=7, kafka={"sasl.password": "s"}, genesis={"conflicts_max": 5}
    )
    child = settings.environment()
    other = 'ui_port = 1\nregistry_url = "http://other"\n[genesis]\nkeyed_rows_max = 9\n[kafka]\nacks = 1'
    (tmp_path / "commitlog.toml").write_text(other)
    assert Settings.load(environment=child) == settings
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_settings_when_they_are_for_another_home_then_nothing_of_them_lies_in_the_first(tmp_path: Path) -> None:
    first = Settings.load(environment={}, home=tmp_path / "first")
    own = first.at_home(tmp_path / "own")
    assert own.home == tmp_path / "own"
    for name, value, _ in first.shown():
        if value is not None and str(tmp_path) in value:
            assert str(getattr(own, name)).startswith(str(own.home)), name


def test_environment_when_nobody_has_chosen_a_port_then_it_does_not_look_chosen() -> None:
    child = Settings.load(environment={}, ui_port=8700).environment()
    assert child["COMMITLOG_UI_PORT"] == "8700"
    assert "COMMITLOG_KAFKA_PORT" not in child


@pytest.mark.parametrize("name", ["defaults.toml", "environment.toml", "{a}.toml"])
def test_load_when_the_file_is_called_like_another_source_then_is_still_told_from_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("ui_port = 8700")
    settings = Settings.load(environment={"COMMITLOG_CONFIG": name})
    assert settings.sources["ui_port"] == f"{name}: ui_port"
    assert not settings.is_default("ui_port")
    assert settings.is_default("kafka_port")
    assert settings.environment()["COMMITLOG_UI_PORT"] == "8700"


def test_shown_when_there_are_passwords_then_masks_them() -> None:
    settings = Settings.load(
        environment={},
        database_url="postgresql://me:hush@db:5/c",
        maven_url="https://me:hush@mirror/maven",
        kafka={"sasl.password": "hush", "ssl.key.pem": "hush", "sasl.jaas.config": "x y='hush'", "a": "password=hush"},
        genesis={"on_conflict": "KEEP_EXISTING"},
    )
    assert "hush" not in str(list(settings.shown()))
    assert ("genesis.on_conflict", "KEEP_EXISTING", "argument genesis") in settings.shown()
    assert "hush" not in repr(settings)


def test_load_when_options_of_kafka_are_without_quotes_then_they_are_the_same_and_their_secrets_are_masked(
    tmp_path: Path,
) -> None:
    text = '[kafka]\nsecurity.protocol = "SASL_SSL"\nsasl.password = "hush"\n"sasl.username" = "etl"\n'
    (tmp_path / "commitlog.toml").write_text(text + '[profile.far.kafka.ssl.ca]\nlocation = "far.pem"\n')
    settings = Settings.load(environment={}, profile="far")
    assert settings.kafka == {
        "ssl.ca.location": "far.pem",
        "security.protocol": "SASL_SSL",
        "sasl.password": "hush",
        "sasl.username": "etl",
    }
    assert "hush" not in str(list(settings.shown()))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("partitions", "many", "whole number from 1 to 1,000, not 'many'"),
        ("partitions", "0", "whole number"),
        ("kafka_port", "65536", "whole number from 0"),
        ("log", "a/b", "names Kafka topics"),
        ("log", "..", "names Kafka topics and folders"),
        ("genesis", "[" * 100_000, "is not valid JSON"),
        ("log", " ", "not empty"),
        ("database_url", "mysql://x", "must start with postgresql://"),
        ("database_url", "postgresql://me:hu sh@h:5432/db", "%20 for a blank"),
        *(
            ("bootstrap_servers", wrong, "must be host:port, comma separated")
            for wrong in (
                "http://kafka:9092",
                "kafka:99999",
                "a:9092;b:9092",
                "kafka:port",
                "kafka:9092/x",
                "a b:1",
                ",",
            )
        ),
    ],
)
def test_load_when_a_value_is_wrong_then_names_the_setting_and_its_source(name: str, value: str, problem: str) -> None:
    variable = f"COMMITLOG_{name.upper()}"
    with pytest.raises(ConfigurationError) as error:
        Settings.load(environment={variable: value})
    assert str(error.value).startswith(f"environment variable {variable}")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("partition = 3", "unknown setting partition; known are log,"),
        ("partitions = [", "is not valid TOML"),
        ("partitions = " + "[" * 5_000, "is not valid TOML"),
        ("partitions = " + "1" * 5_000, "is not valid TOML"),
        ("partitions = true", "whole number"),
        ("kafka = 3", "must be a table"),
        ('profile = "prod"', "profile has settings below a name"),
        ('[profile.prod]\nlogg = "rides"', "profile.prod: unknown setting logg"),
        ('checkpoint_dir = "lake/c"\ndata_path = "lake"', "under data_path"),
        ('checkpoint_dir = "/x/../my lake/c"\ndata_path = "/my lake"', "under data_path"),
        ('checkpoint_dir = "/my lake/c"\ndata_path = "file:///my%20lake/"', "under data_path"),
        ('data_path = "s3a://lake/data"', "write it s3://"),
        ('data_path = "S3://lake/data"', "in its plain form, such as s3://bucket/folder"),
        ('data_path = "s3://lake//data"', "without empty parts"),
        ('data_path = "s3://lake/../data"', "in its plain form"),
        ('data_path = "s3:///data"', "in its plain form"),
        ('data_path = "s3://"', "in its plain form"),
        ('[kafka]\n"bootstrap.servers" = "x"', "as bootstrap_servers"),
    ],
)
def test_load_when_the_file_is_wrong_then_says_what(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "commitlog.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=problem.replace("(", r"\(")) as error:
        Settings.load(environment={})
    assert "commitlog.toml" in str(error.value)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("COMMITLOG_BOOTSTRP_SERVERS", "COMMITLOG_BOOTSTRAP_SERVERS"),
        ("COMMITLOG_DATAPATH", "COMMITLOG_DATA_PATH"),
        ("COMMITLOG_DATA_PAHT", "COMMITLOG_DATA_PATH"),
        ("COMMITLOG_PROFIL", "COMMITLOG_PROFILE"),
    ],
)
def test_load_when_a_variable_is_misspelt_then_says_which_is_meant(misspelt: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{misspelt} is not a setting: did you mean {meant}"):
        Settings.load(environment={misspelt: "x", "COMMITLOG_LOG": "rides"})


def test_load_when_variables_are_of_others_then_they_are_ignored() -> None:
    ours = dict.fromkeys(("COMMITLOG_CORE", "COMMITLOG_SUPERVISED", "COMMITLOG_TEST_SEED", "_COMMITLOG_COMPLETE"), "x")
    of_kubernetes = {
        "COMMITLOG_PORT": "tcp://10.0.0.1:80",
        "COMMITLOG_PORT_80_TCP_PORT": "80",
        "COMMITLOG_SERVICE_HOST": "10.0.0.1",
        "COMMITLOG_SERVICE_PORT_DUCKDB": "5442",
        "COMMITLOG_DATABASE_PORT": "tcp://10.0.0.2:5432",
        "COMMITLOG_DATABASE_SERVICE_HOST": "10.0.0.2",
    }
    of_people = dict.fromkeys(
        ("COMMITLOG_IMAGE", "COMMITLOG_DATABASE_USER", "COMMITLOG_DATABASE_PASSWORD", "COMMITLOG_"), "x"
    )
    found = Settings.load(environment={**ours, **of_kubernetes, **of_people})
    assert all(source.startswith("default") for source in found.sources.values())


def test_load_when_a_named_file_is_missing_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Settings.load(config_file=tmp_path / "none.toml", environment={})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Settings.load(environment={"COMMITLOG_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (" a:9092 , b:9093, ", "a:9092,b:9093"),
        ("kafka", "kafka"),
        ("[::1]:9092", "[::1]:9092"),
        ("2001:db8::1,SASL_SSL://::1", "2001:db8::1,SASL_SSL://::1"),
        ("SASL_SSL://kafka-1.example.com:9092", "SASL_SSL://kafka-1.example.com:9092"),
    ],
)
def test_load_when_brokers_have_blanks_or_a_protocol_then_they_are_taken(given: str, taken: str) -> None:
    assert Settings.load(environment={"COMMITLOG_BOOTSTRAP_SERVERS": given}).bootstrap_servers == taken


def test_load_when_an_argument_is_unknown_then_says_which() -> None:
    with pytest.raises(ConfigurationError, match="unknown setting bootstrap;"):
        Settings.load(environment={}, bootstrap="x")


@pytest.mark.parametrize("content", [b"", b"{", b'{"log": "\xff"}', b"\0" * 512, b"[1]", b"[" * 100_000])
def test_load_when_the_run_file_is_damaged_then_names_it_and_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    running_home(tmp_path)
    (tmp_path / ".commitlog" / "run.json").write_bytes(content)
    with pytest.raises(
        ConfigurationError, match=r"run\.json is not (valid JSON|a JSON object).*; remove it: `commitlog up`"
    ):
        Settings.load(environment={})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:hush@h:5432/db", "postgresql://me:***@h:5432/db"),
        ("postgresql://me:hu@s/h@h/db", "postgresql://me:***@h/db"),
        ("postgresql://:hush@/db", "postgresql://:***@/db"),
        ("postgresql://me@h/db?sslmode=require", "postgresql://me@h/db?sslmode=require"),
        ("postgresql://h/db?user=me&password=hush&sslmode=require", "postgresql://h/db?user=me&password=***&sslmode=require"),
        ("postgresql://h/db?sslpassword=hush", "postgresql://h/db?sslpassword=***"),
        ("postgresql://h/db?oauth_client_secret=hush", "postgresql://h/db?oauth_client_secret=***"),
        ("postgresql://h/db?scram_client_key=hush", "postgresql://h/db?scram_client_key=***"),
        ("host=h password=hush user=me", "host=h password=*** user=me"),
        (r"host=h password='hu\'s h' user=me", "host=h password=*** user=me"),
        ("ATTACH 'postgres:host=h password=''hu sh'' user=me'", "ATTACH 'postgres:host=h password=*** user=me'"),
        ('Unable to connect at "host=h Password = hush"', 'Unable to connect at "host=h Password = ***"'),
        ("to postgresql://a:hush@h/x, postgresql://b:hush@i/y", "to postgresql://a:***@h/x, postgresql://b:***@i/y"),
        ("password authentication failed for user me", "password authentication failed for user me"),
    ],
)  # fmt: skip
def test_without_password_when_a_text_holds_some_then_masks_each(text: str, shown: str) -> None:
    assert without_password(text) == shown


@pytest.mark.parametrize("url", ["me:hu@sh@h/db", "me:hu/sh@h/db", "me:hu#sh@h/db", "me:hu?sh@h/db", "h:port/db"])
def test_load_when_a_database_url_has_letters_that_must_be_written_otherwise_then_says_how(url: str) -> None:
    with pytest.raises(ConfigurationError, match="%40 for @") as refused:
        Settings.load(environment={}, database_url=f"postgresql://{url}")
    assert "hu" not in str(refused.value)


@pytest.mark.parametrize("url", ["h1:1,h2:2/db", "[::1]:5432/db", "/db", "me:h%40sh@h:5432/db?sslmode=require", "h"])
def test_load_when_libpq_understands_a_database_url_then_takes_it(url: str) -> None:
    assert Settings.load(environment={}, database_url=f"postgresql://{url}").database_url.endswith(url)


def test_status_when_only_a_part_of_the_run_is_told_then_nothing_runs(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).write_text('{"log": "main"}', encoding="utf-8")
    assert status(Settings.load(environment={}, home=tmp_path)) == RuntimeStatus(tmp_path, None)


def test_status_as_json_then_its_password_is_masked(tmp_path: Path) -> None:
    told = RuntimeStatus(tmp_path, 1, database_url="postgresql://me:hush@h/db").as_dict()
    assert told["database_url"] == "postgresql://me:***@h/db"


def test_load_when_the_database_is_another_than_the_homes_then_the_homes_reader_is_not_meant(tmp_path: Path) -> None:
    running_home(tmp_path, reader_url="postgresql://reader@127.0.0.1/x")
    assert Settings.load(environment={}).reader_url == "postgresql://reader@127.0.0.1/x"
    other = Settings.load(environment={}, database_url="postgresql://me@db/c")
    assert other.reader_url is None


def test_load_when_the_working_directory_was_removed_then_only_a_path_that_begins_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Settings.load(environment={}, home=tmp_path / "home").environment()
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert Settings.load(environment=told).home == tmp_path / "home"  # as a service that is started again
    with pytest.raises(
        ConfigurationError, match=r"home is \.commitlog, and the working directory was removed: change to one"
    ):
        Settings.load(environment={})
    with pytest.raises(ConfigurationError, match="DATA_PATH is lake, and the working directory was removed"):
        Settings.load(environment={**told, "COMMITLOG_DATA_PATH": "lake"})
