"""CPU by thread: how threads are named and gathered, and that a busy one is seen."""

from __future__ import annotations

import threading
import time

import psutil
import pytest

from commitlog.ops.bench.cpu import CpuTime, cpu_time, process_role, thread_group, threads_in_dump

DUMP = """\
"main" #1 prio=5 os_prio=0 cpu=812.35ms elapsed=30.02s tid=0x00007f nid=0x2a waiting on condition  [0x00007f]
   java.lang.Thread.State: WAITING (parking)
        - parking to wait for  <0x0000> (a java.util.concurrent.CountDownLatch$Sync)

"data-plane-kafka-request-handler-0" #62 daemon prio=5 os_prio=0 cpu=1.1ms tid=0x00007f nid=59 waiting on condition
"VM Thread" os_prio=0 cpu=9.64ms elapsed=30.14s tid=0x00007f nid=0x30 runnable
JNI global refs: 25, weak refs: 0
"""


def test_threads_in_dump_then_names_by_the_systems_ids_of_old_and_new_jvms() -> None:
    assert threads_in_dump(DUMP) == {42: "main", 59: "data-plane-kafka-request-handler-0", 48: "VM Thread"}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("data-plane-kafka-request-handler-0", "request-handler"),
        ("data-plane-kafka-network-thread-1-ListenerName(PLAINTEXT)-PLAINTEXT-0", "network-thread"),
        ("rdk:broker1", "rdk:broker"),
        ("writer_13", "writer"),
        ("C2 CompilerThread0", "C2 CompilerThread"),
        ("commitlog-receipts", "commitlog-receipts"),
        ("7", "7"),
    ],
)
def test_thread_group_then_the_name_without_its_number(name: str, group: str) -> None:
    assert thread_group(name) == group


@pytest.mark.parametrize(
    ("title", "role"),
    [("postgres: bench lake 127.0.0.1(5544) idle", "connections"), ("postgres: walwriter ", "walwriter")],
)
def test_process_role_then_what_it_is_for(title: str, role: str) -> None:
    assert process_role(title) == role


def test_since_then_what_was_spent_and_threads_that_came_in_between() -> None:
    before = CpuTime(10.0, {"a": 4.0, "ended": 1.0, "idle": 2.0})
    assert CpuTime(12.5, {"a": 5.0, "new": 1.5, "idle": 2.0}).since(before) == CpuTime(2.5, {"a": 1.0, "new": 1.5})


def test_cpu_time_when_a_thread_works_then_it_is_seen_by_its_name() -> None:
    done, seen = threading.Event(), threading.Event()

    def work() -> None:
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        seen.set()
        done.wait()

    worker = threading.Thread(target=work)
    before = cpu_time(psutil.Process())
    worker.start()
    seen.wait()
    assert worker.native_id is not None
    spent = cpu_time(psutil.Process(), {worker.native_id: "worker-1"}).since(before)
    done.set()
    worker.join()
    assert 0.08 < spent.threads_s["worker"] <= spent.total_s + 0.02
