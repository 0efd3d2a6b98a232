"""Open queues: textbook figures, limits that two models share, and numbers that break naive formulas."""

import math
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.integrate import quad

from posthaste_lab import queueing
from posthaste_lab.queueing import BadArgument, OpenQueue, UnstableQueue, erlang_b, erlang_c

rates = st.floats(1e-3, 1e3)
loads = st.floats(0.001, 0.995)
servers = st.integers(1, 300)


def approx(value: float) -> object:
    """Equal, but for rounding."""
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def check_little(queue: OpenQueue) -> None:
    """What every queue in a steady state satisfies."""
    assert queue.mean_jobs == approx(queue.throughput * queue.mean_response)
    assert queue.mean_queue == approx(queue.throughput * queue.mean_wait)
    assert queue.mean_jobs - queue.mean_queue == pytest.approx(queue.utilization * queue.servers, rel=1e-6, abs=1e-9)


def test_mm1_of_jain() -> None:
    """Example 31.1: a gateway with 125 packets a second, each served in 2 ms."""
    queue = queueing.mm1(125, 500)
    assert queue.utilization == 0.25
    assert queue.p0 == 0.75
    assert queue.mean_jobs == approx(1 / 3)
    assert queue.mean_response == approx(1 / 375)
    assert queue.prob_jobs(3) == approx(0.75 * 0.25**3)
    assert queue.var_jobs == approx(0.25 / 0.75**2)
    assert queue.response_percentile(95) == approx(queue.mean_response * math.log(20))
    assert queue.wait_percentile(90) == approx(queue.mean_wait / 0.25 * math.log(10 * 0.25))


def test_mmm_of_jain() -> None:
    """Example 31.2: five terminals, 10 students an hour at 20 minutes each: two in three have to wait a third."""
    queue = queueing.mmm(10 / 60, 1 / 20, 5)
    assert queue.utilization == approx(2 / 3)
    assert queue.p0 == pytest.approx(0.0318, abs=5e-5)
    assert queue.p_wait == pytest.approx(0.33, abs=5e-3)
    assert queue.mean_jobs == pytest.approx(4.0, abs=0.02)
    assert queue.mean_wait == pytest.approx(3.96, abs=0.05)
    assert queue.wait_percentile(90) == pytest.approx(14, abs=0.6)


def test_mmmk_of_jain() -> None:
    """Example 31.3: the gateway with room for two packets loses some of them."""
    queue = queueing.mmmk(125, 500, 1, 2)
    weights = np.array([1, 0.25, 0.0625])
    assert [queue.prob_jobs(n) for n in range(4)] == [approx(p) for p in (*(weights / weights.sum()), 0.0)]
    assert queue.p_block == approx(0.0625 / 1.3125)
    assert queue.throughput == approx(125 * (1 - 0.0625 / 1.3125))


def test_mg1_of_pollaczek_and_khinchine() -> None:
    """A constant service time halves the wait of an exponential one; all moments of M/M/1 at a spread of 1."""
    assert queueing.mg1(0.8, 1, 0).mean_wait == approx(queueing.mm1(0.8, 1).mean_wait / 2)
    exponential, general = queueing.mm1(0.8, 1), queueing.mg1(0.8, 1, 1)
    for name in ("mean_jobs", "var_jobs", "mean_queue", "var_queue", "var_response", "var_wait", "p0", "p_wait"):
        assert getattr(general, name) == approx(getattr(exponential, name)), name
    for q in (50, 90, 99.9):
        assert general.response_percentile(q) == pytest.approx(exponential.response_percentile(q), rel=1e-6)
        assert general.wait_percentile(q) == pytest.approx(exponential.wait_percentile(q), rel=1e-6)
    assert [general.prob_jobs(n) for n in range(50)] == [approx(exponential.prob_jobs(n)) for n in range(50)]


@pytest.mark.parametrize("share", [0.45, 0.5, 0.55])
def test_a_constant_service_is_added_to_the_wait(share: float) -> None:
    """Below one service, P(wait <= t) = (1 - rho) e^(rate t): Erlang's M/D/1. No response is shorter than it."""
    queue = queueing.mg1(0.7, 1, 0)
    wait = math.log(share / 0.3) / 0.7
    assert queue.wait_percentile(share) == pytest.approx(wait, rel=1e-4)
    assert queue.response_percentile(share) == pytest.approx(1 + wait, rel=1e-4)
    assert queue.response_percentile(0.2) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("scv", [0, 0.25, 0.5, 2, 7.5])
def test_the_distribution_of_mg1_has_the_moments_it_states(scv: float) -> None:
    """Summed up, the distribution of jobs gives mean and variance; the tail of waits, integrated, gives their mean."""
    queue = queueing.mg1(0.7, 1.0, scv)
    n = np.arange(1500)
    p = np.array([queue.prob_jobs(int(k)) for k in n])
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert p @ n == pytest.approx(queue.mean_jobs, rel=1e-6)
    assert p @ n**2 - (p @ n) ** 2 == pytest.approx(queue.var_jobs, rel=1e-5)
    mean, _ = quad(queue.distributions.wait_tail, 1e-9, 60 + 100 * scv, limit=500)
    assert mean == pytest.approx(queue.mean_wait, rel=1e-4)


def test_the_seeds_of_one_figure_agree() -> None:
    """Figures one report printed for M/M/1, its variance in the unit that follows from them: 66.6 ms squared."""
    queue = queueing.mm1(2011.28, 2133.84)
    assert queue.mean_response == pytest.approx(8.16e-3, abs=1e-5)
    assert queue.mean_jobs == pytest.approx(16.40, abs=0.02)
    assert queue.var_response == pytest.approx(66.57e-6, abs=0.03e-6)
    assert queue.response_percentile(95) == pytest.approx(24.44e-3, abs=1e-5)


@given(loads, rates)
def test_one_server_is_one_server(load: float, rate: float) -> None:
    """M/M/m with m = 1, one queue side by side, and M/M/1/K with much room are M/M/1."""
    one = queueing.mm1(load * rate, rate)
    for other in (queueing.mmm(load * rate, rate, 1), queueing.parallel_mm1(load * rate, rate, 1)):
        for name in ("mean_jobs", "var_jobs", "mean_queue", "mean_response", "var_wait", "p0", "p_wait"):
            assert getattr(other, name) == approx(getattr(one, name)), name


@given(st.floats(0.05, 0.9), rates, st.integers(1, 12))
def test_much_room_is_no_limit(load: float, rate: float, m: int) -> None:
    """M/M/m/K with K large is M/M/m, in means, variances and percentiles."""
    free, limited = queueing.mmm(load * m * rate, rate, m), queueing.mmmk(load * m * rate, rate, m, 600)
    for name in (
        "mean_jobs",
        "var_jobs",
        "mean_queue",
        "var_queue",
        "mean_response",
        "var_response",
        "var_wait",
        "p_wait",
    ):
        assert getattr(limited, name) == pytest.approx(getattr(free, name), rel=1e-6, abs=1e-9), name
    for q in (10, 50, 95, 99.9):
        assert limited.response_percentile(q) == pytest.approx(free.response_percentile(q), rel=1e-6)
        assert limited.wait_percentile(q) == pytest.approx(free.wait_percentile(q), rel=1e-6, abs=1e-9)


@given(loads, rates, servers)
def test_laws_hold_for_mmm(load: float, rate: float, m: int) -> None:
    """Little's law, conservation of work, and probabilities that are some."""
    queue = queueing.mmm(load * m * rate, rate, m)
    check_little(queue)
    assert 0 <= queue.p_wait <= 1
    assert queue.p_wait == pytest.approx(1 - sum(queue.prob_jobs(n) for n in range(m)), abs=1e-9)


@given(st.floats(0, 3), rates, st.integers(1, 40), st.integers(0, 200))
def test_laws_hold_for_mmmk(load: float, rate: float, m: int, room: int) -> None:
    """At any load, below and above one, and for Erlang's loss system."""
    queue = queueing.mmmk(load * m * rate, rate, m, m + room)
    check_little(queue)
    assert sum(queue.prob_jobs(n) for n in range(m + room + 1)) == approx(1)
    if room == 0:
        assert queue.p_block == approx(erlang_b(load * m, m))


@given(loads, rates, st.integers(1, 60))
def test_a_shared_line_never_waits_longer(load: float, rate: float, m: int) -> None:
    """Queues side by side wait at least as long as one line before m servers."""
    apart, together = queueing.parallel_mm1(load * m * rate, rate, m), queueing.mmm(load * m * rate, rate, m)
    check_little(apart)
    assert apart.mean_response >= together.mean_response * (1 - 1e-12)


def test_one_is_the_first_percentile_and_not_all() -> None:
    """From 1 up it is percent, below 1 a fraction."""
    queue = queueing.mm1(1, 2)
    assert queue.response_percentile(1) == queue.response_percentile(0.01) == approx(-math.log(0.99))
    assert queue.response_percentile(99) == queue.response_percentile(0.99) == approx(-math.log(0.01))
    assert queue.response_percentile(0.5) == approx(math.log(2)), "half of the jobs, not half a percent"


def test_the_jobs_of_queues_side_by_side_have_a_law() -> None:
    """Which sums to one, and to their mean."""
    apart = queueing.parallel_mm1(14, 1, 20)
    p = np.array([apart.prob_jobs(n) for n in range(800)])
    assert p.sum() == approx(1)
    assert p @ np.arange(800) == approx(apart.mean_jobs)
    assert p[0] == approx(apart.p0)


@given(st.floats(0.1, 0.97), st.integers(1, 50), st.floats(0.1, 5))
def test_percentiles_grow_and_invert_the_law(load: float, m: int, scv: float) -> None:
    """A higher percentile is never shorter, and the distribution at a percentile gives back its share."""
    for queue in (queueing.mmm(load * m, 1, m), queueing.mmmk(load * m, 1, m, m + 5), queueing.mg1(load, 1, scv)):
        asked = (0.01, 0.3, 50, 90, 99, 99.99)
        times = [queue.response_percentile(q) for q in asked]
        assert all(a < b for a, b in pairwise(times))
        assert queue.distributions.response_tail(times[4]) == pytest.approx(0.01, rel=1e-5)
        waits = [queue.wait_percentile(q) for q in asked]
        assert all(0 <= a <= b for a, b in pairwise(waits))


def test_a_percentile_among_those_who_do_not_wait_is_zero() -> None:
    """Never a negative time, however the formula reads."""
    assert queueing.mm1(1, 10).wait_percentile(50) == 0
    assert queueing.mmm(1, 1, 20).wait_percentile(99) == 0


def test_a_percentile_beyond_the_digits_of_a_law_is_refused() -> None:
    """M/G/1 is known to some eight digits of a probability; M/M/1 to all."""
    assert queueing.mm1(1, 2).response_percentile(1 - 1e-12) == pytest.approx(12 * math.log(10), rel=1e-4)
    with pytest.raises(BadArgument, match="further out"):
        queueing.mg1(0.5, 1, 0.3).response_percentile(1 - 1e-12)


def test_95_and_0_95_are_the_same_percentile() -> None:
    """Both ways of writing it are in use."""
    queue = queueing.mm1(5, 10)
    assert queue.response_percentile(95) == queue.response_percentile(0.95)


@pytest.mark.parametrize(("load", "m"), [(0.5, 1), (140, 150), (499, 500), (4990, 5000), (0.2, 2000)])
def test_erlang_holds_against_sixty_digits(load: float, m: int) -> None:
    """Thousands of servers, where a^m/m! overflows, to ten digits."""
    with mpmath.workdps(60):
        a = mpmath.mpf(load)
        term, below = mpmath.mpf(1), mpmath.mpf(0)
        for k in range(1, m + 1):
            below += term
            term *= a / k
        lost = term / (below + term)
        waiting = (term * m / (m - a)) / (below + term * m / (m - a))
    assert erlang_b(load, m) == pytest.approx(float(lost), rel=1e-10, abs=1e-300)
    assert erlang_c(load, m) == pytest.approx(float(waiting), rel=1e-10, abs=1e-300)


def test_without_servers_everybody_is_lost() -> None:
    """The recursion starts there."""
    assert erlang_b(3.0, 0) == 1


def test_a_load_of_one_is_legal_where_room_is_limited() -> None:
    """The closed form is 0/0 there; every number of jobs is equally likely."""
    queue = queueing.mmmk(3, 3, 1, 9)
    assert [queue.prob_jobs(n) for n in range(10)] == [approx(0.1)] * 10
    assert queue.mean_jobs == approx(4.5)


def test_a_huge_limited_system_neither_overflows_nor_loses_digits() -> None:
    """500 servers, room for 5000, and twice the load they can take."""
    queue = queueing.mmmk(1000, 1, 500, 5000)
    assert queue.throughput == pytest.approx(500, rel=1e-12)
    assert queue.mean_response == pytest.approx(10, rel=1e-3)
    assert queue.response_percentile(50) == pytest.approx(9 + math.log(2), abs=0.01)


def test_the_law_of_a_long_line_has_its_mean() -> None:
    """Behind ten thousand others, where a factor overflows and the other underflows, no time is lost."""
    queue = queueing.mmmk(3, 1, 2, 10_000)
    half = 10 * math.sqrt(queue.var_response)
    times = np.linspace(queue.mean_response - half, queue.mean_response + half, 41)
    tail = np.trapezoid([queue.distributions.response_tail(t) for t in times], times)
    assert times[0] + tail == pytest.approx(queue.mean_response, abs=0.01)


@pytest.mark.parametrize(
    "call",
    [
        lambda: queueing.mm1(100, 100),
        lambda: queueing.mm1(101, 100),
        lambda: queueing.mmm(40, 10, 4),
        lambda: queueing.parallel_mm1(50, 10, 5),
        lambda: queueing.mg1(2, 0.5, 1),
        lambda: erlang_c(5, 5),
    ],
)
def test_too_much_work_is_an_error_and_not_a_negative_time(call: object) -> None:
    """It names the argument and says what utilization would be needed."""
    with pytest.raises(UnstableQueue, match="utilization of") as caught:
        call()  # type: ignore[operator]
    assert isinstance(caught.value, ValueError)
    assert caught.value.argument in ("arrival_rate", "offered_load")
    assert caught.value.utilization >= 1


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        (lambda: queueing.mm1(-1, 10), "arrival_rate", "-1"),
        (lambda: queueing.mm1(1, 0), "service_rate", "0"),
        (lambda: queueing.mm1(math.nan, 10), "arrival_rate", "nan"),
        (lambda: queueing.mm1("fast", 10), "arrival_rate", "fast"),  # type: ignore[arg-type]
        (lambda: queueing.mmm(1, 1, 0), "servers", "0"),
        (lambda: queueing.mmm(1, 1, 2.5), "servers", "2.5"),  # type: ignore[arg-type]
        (lambda: queueing.mmmk(1, 1, 4, 3), "capacity", "3"),
        (lambda: queueing.mg1(1, 0.1, -0.5), "scv", "-0.5"),
        (lambda: erlang_b(-1, 2), "offered_load", "-1"),
        (lambda: queueing.mm1(1, 2).response_percentile(100), "q", "100"),
        (lambda: queueing.mm1(1, 2).prob_jobs(-1), "n", "-1"),
    ],
)
def test_bad_input_names_the_argument_and_its_value(call: object, argument: str, value: str) -> None:
    """One line that says what to change."""
    with pytest.raises(BadArgument) as caught:
        call()  # type: ignore[operator]
    assert caught.value.argument == argument
    assert argument in str(caught.value)
    assert value in str(caught.value)


def test_an_empty_system_has_figures_too() -> None:
    """No arrivals: nobody waits, and a request would take its service time."""
    for queue in (queueing.mm1(0, 4), queueing.mmm(0, 4, 3), queueing.mmmk(0, 4, 2, 5), queueing.mg1(0, 0.25, 3)):
        assert queue.p0 == 1
        assert queue.prob_jobs(0) == 1
        assert queue.mean_response == 0.25
        assert queue.wait_percentile(99) == 0


@given(st.floats(-9, -0.1), rates, st.floats(-5, -0.5))
@example(-5, 0.0221412521891, -4)
@example(-5, 30.77142015304954, -4)
def test_percentiles_next_to_saturation_are_those_of_exponential_service(room: float, rate: float, tail: float) -> None:
    """Far ones too: once the inversion of the transform answered 10^10 s there for 10^7 s."""
    service = (1 - 10**room) / rate
    general, exponential = queueing.mg1(rate, service, 1), queueing.mm1(rate, 1 / service)
    q = 1 - 10**tail
    # 1 - rho itself has few digits there
    assert general.wait_percentile(q) == pytest.approx(exponential.wait_percentile(q), rel=1e-5, abs=1e-4 * service)
    assert general.response_percentile(q) == pytest.approx(exponential.response_percentile(q), rel=1e-5)


@pytest.mark.parametrize(
    ("load", "scv"), [*product([0.3, 0.99, 0.99999, 1 - 1e-9], [0.1, 3, 1e5, 1e9]), (0.99999, 1e-9)]
)
def test_tails_of_mg1_are_those_of_its_transform_with_many_digits(load: float, scv: float) -> None:
    """Next to saturation and with rare long services, where the transform subtracts almost equal figures."""
    law = queueing.mg1(load, 1, scv).distributions
    rho, spread = mpmath.mpf(load), mpmath.mpf(scv)

    def service(s: mpmath.mpc) -> mpmath.mpc:
        return (1 + s * spread) ** (-1 / spread)

    def wait(s: mpmath.mpc) -> mpmath.mpc:
        return (1 - rho) * s / (s - rho + rho * service(s))

    with mpmath.workdps(60):
        for tail in (0.3, 1e-3, 1e-5):
            t = math.log(1 / tail) * (1 + scv) / 2 / (1 - load)
            waits, responses = (
                float(mpmath.invertlaplace(beyond, t, method="talbot", degree=80))
                for beyond in (lambda s: (1 - wait(s)) / s, lambda s: (1 - wait(s) * service(s)) / s)
            )
            assert law.wait_tail(t) == pytest.approx(waits, rel=1e-5, abs=1e-9)
            assert law.response_tail(t) == pytest.approx(responses, rel=1e-5, abs=1e-9)
