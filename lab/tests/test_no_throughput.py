"""Tests the audit of rows with a throughput of 0."""

import pytest

from posthaste_lab.laws import audit
from posthaste_lab.laws.reading import Row

LAW = "answers without throughput"
IMPOSSIBLE: list[Row] = [
    {"clients": 32, "throughput": 0, "response_time": 8.1},
    {"throughput": 0, "response_time": 8.1},
    {"clients": "32", "throughput": "0", "response_time": "8.1"},
    {"throughput_per_s": 0, "response_mean_s": 8.1, "served": 0, "errors": 0},
]
POSSIBLE: list[Row] = [
    {"clients": "1", "throughput": "0", "response_time": "8.1"},
    {"throughput": "0", "response_time": "8.1"},
    {"clients": 32, "throughput": 0, "response_time": 0},
    {"clients": 32, "throughput": 0},
    {"throughput_per_s": 0, "response_all_mean_s": 8.1, "clients": 2, "served": 0, "errors": 3},
    {"arrival_rate": 0, "throughput": 0, "response_time": 0.25},
]


@pytest.mark.parametrize("row", IMPOSSIBLE)
def test_who_has_a_response_time_has_a_throughput(row: Row) -> None:
    """Also by figures that are rounded, where clients say how much it must be."""
    (found,) = audit([row])
    assert (found.law, found.severity) == (LAW, "error")
    assert "8.1, which only answers have" in found.message
    assert ("would get 3.9" in found.message) == ("clients" in row)


@pytest.mark.parametrize("row", POSSIBLE)
def test_a_throughput_of_0_may_be_rounded_of_errors_or_of_a_model(row: Row) -> None:
    """Or there was no answer."""
    assert audit([row]) == []
