"""Model of the efficiency of ranks (docs/CLUSTER.md): prints its table. Python 3, no packages.

The time of a step of B photos on P ranks, milliseconds:

    T(P, B) = (B (v + k) + u) / P + late(P, B) + calls(P, B) (o + first(P))

    v, u    time of a photo and of an update in one engine, from steps of 8 and of 32 photos without ranks
    k       kernels that ranks add per photo, from steps on one rank
    o       time in which a device waits, per call of up to four photos a rank, from 8 photos on two ranks
    first   further time of the first shipment of a call on more than two ranks: the others are hidden
    late    wait for the rank whose photos take longest, by simulation

Nothing is fitted to the rows that the table calls modelled. The row of 32 photos on two ranks checks the model.
"""

import random
from math import ceil

# Measured: two H200 of one host, 9 054 585 Gaussians, 1920x1080 (ranks page, 2026-11-30).
ONE_8, ONE_32, RANK_8, TWO_8, TWO_32 = 35.35, 127.2, 38.44, 19.64, 71.22
HOST_8, HOST_32 = 21.03, 75.36
# Measured: efficiency of four H200 of one host with the code of 2026-11-28, percent.
FOUR_8, FOUR_32 = 68, 74
# Share of a photo's time in stages that only its rank executes.
OWN_SHARE = 0.82
# Megabytes of the projected Gaussians of a photo, and of their sums.
SHOWN_MB, SUMS_MB = 123.0, 80.0
# Photos of a rank in one call.
WAVES = 4

V = (ONE_32 - ONE_8) / 24
U = ONE_8 - 8 * V
K = (RANK_8 - ONE_8) / 8
O = TWO_8 - (8 * (V + K) + U) / 2


def late(ranks, views, spread):
    """Mean wait for the slowest rank, milliseconds. Photos cost 1 with a standard deviation of `spread`."""
    draw, total, rounds = random.Random(1), 0.0, 2000
    for _ in range(rounds):
        costs = [max(0.0, draw.gauss(1, spread)) for _ in range(views)]
        sums = [sum(costs[rank::ranks]) for rank in range(ranks)]
        total += max(sums) - sum(sums) / ranks
    return total / rounds * V * OWN_SHARE


def step(ranks, views, gigabytes_per_s, spread):
    """Time of a step, and the share of the wire that does not hide behind the device's work."""
    calls = ceil(views / (WAVES * ranks))
    others = (ranks - 1) / ranks
    first = (others - 0.5) * SHOWN_MB / gigabytes_per_s
    work = (views * (V + K) + U) / ranks
    wire = views / ranks * others * (SHOWN_MB + SUMS_MB) / gigabytes_per_s
    return max(work, wire) + late(ranks, views, spread) + calls * (O + first)


def share_of(one, ranks, time):
    return 100 * one / ranks / time


def row(name, ranks, views, gigabytes_per_s, spread, measured=None):
    one = {8: ONE_8, 32: ONE_32}.get(views, views * V + U)
    time = step(ranks, views, gigabytes_per_s, spread)
    share = share_of(one, ranks, time)
    seen = "" if measured is None else f"{measured:.0f} %"
    print(f"| {name} | {ranks} | {views} | {spread:.1f} | {views / time * 1e3:.0f} | {share:.0f} % | {seen} |")


print(f"v {V:.2f}  u {U:.2f}  k {K:.2f}  o {O:.2f} ms")
print("| link | ranks | photos a step | spread | views/s | modelled | measured |")
print("|---|---|---|---|---|---|---|")
row("NVLink", 2, 8, 285, 0.0, share_of(ONE_8, 2, TWO_8))
row("NVLink", 2, 32, 285, 0.0, share_of(ONE_32, 2, TWO_32))
for spread in (0.0, 0.1, 0.3):
    row("NVLink", 4, 8, 285, spread, FOUR_8)
    row("NVLink", 4, 32, 285, spread, FOUR_32)
    row("NVLink", 8, 32, 285, spread)
row("InfiniBand", 16, 64, 45, 0.1)
row("InfiniBand", 64, 256, 45, 0.1)
row("pinned host memory", 2, 8, 55, 0.0, share_of(ONE_8, 2, HOST_8))
row("pinned host memory", 2, 32, 55, 0.0, share_of(ONE_32, 2, HOST_32))
row("pinned host memory", 4, 32, 55, 0.0)
