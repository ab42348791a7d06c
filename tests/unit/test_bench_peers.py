"""The picture of the peers: every client's curve is there, where its figures say, and its names do not lie on each other."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from commitlog.ops.bench.peers_picture import LABEL_GAP, Curve, Point, apart, draw

SVG = "{http://www.w3.org/2000/svg}"
OURS = Curve("ours", "one", [Point(1, 100.0, 0), Point(4, 1_000.0, 0)])
OTHERS = Curve("<others>", "one", [Point(1, 10.0, 0), Point(2, 10.0, 3), Point(4, 1.0, 0)])


def drawn(*curves: Curve) -> ET.Element:
    return ET.fromstring(draw(curves, "noted"))


def points_of(picture: ET.Element, number: int) -> list[tuple[float, float]]:
    [curve] = [each for each in picture.iter(f"{SVG}polyline") if f"s{number}" in each.attrib["class"].split()]
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in curve.attrib["points"].split())]


def test_draw_then_equal_factors_are_equal_distances_on_both_axes() -> None:
    [(x1, y10), (x2, _), (x4, y1)] = points_of(drawn(OURS, OTHERS), 1)
    [(_, y100), (_, y1000)] = points_of(drawn(OURS, OTHERS), 0)
    assert abs((x2 - x1) - (x4 - x2)) < 0.2
    assert abs((y1 - y10) - (y100 - y1000)) < 0.2
    assert y1000 < y100 < y10 < y1


def test_draw_when_commits_failed_then_the_point_is_hollow_and_says_how_many() -> None:
    hollow = [each for each in drawn(OURS, OTHERS).iter(f"{SVG}circle") if "hollow" in each.attrib["class"]]
    assert ["".join(each.itertext()) for each in hollow] == ["<others>, 2 writers: 10 commits/s, 3 failed"]


def test_draw_then_each_point_says_how_many_writers_it_is_of() -> None:
    said = ["".join(each.itertext()).split(":")[0] for each in drawn(OURS).iter(f"{SVG}circle")]
    assert said == ["ours, 1 writer", "ours, 4 writers"]


def test_draw_then_each_curve_is_named_at_its_end_and_the_note_is_there() -> None:
    picture = drawn(OURS, OTHERS)
    names = [each.text for each in picture.iter(f"{SVG}text") if "name" in each.attrib.get("class", "").split()]
    assert sorted(name or "" for name in names) == ["<others>", "ours"]
    assert "noted" in [each.text for each in picture.iter(f"{SVG}text")]


def test_draw_when_one_number_of_writers_and_one_rate_then_still_a_picture() -> None:
    assert points_of(drawn(Curve("ours", "own", [Point(8, 50.0, 0)])), 0)


def test_apart_when_labels_would_lie_on_each_other_then_moved_around_their_middle() -> None:
    assert apart([10.0, 100.0], LABEL_GAP) == [10.0, 100.0]
    assert apart([100.0, 100.0, 110.0], 20) == [83.3, 103.3, 123.3]
    assert apart([0.0, 30.0, 31.0], 20) == [0.0, 20.5, 40.5]
