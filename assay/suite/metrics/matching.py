"""Pairing what was expected with what was done, so that the agreement is as great as it can be.

All three take a table of weights, `weights[i][j]` for expected `i` and done `j`, each an exact fraction in [0, 1], and
return for each expected the one it is paired with, or None where pairing it would add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

Weights = Sequence[Sequence[Fraction]]
Pairs = list[int | None]


def any_order(weights: Weights) -> Pairs:  # noqa: C901 - one method, and cutting it would hide it
    """Each done at most once, in any order: a maximum-weight matching (the Hungarian method)."""
    rows = len(weights)
    real = len(weights[0]) if rows else 0
    scale = lcm(*(w.denominator for row in weights for w in row)) if real else 1
    cost = [[0, *(-int(w * scale) for w in row), *([0] * rows)] for row in weights]
    columns = real + rows
    row_potential, column_potential = [0] * (rows + 1), [0] * (columns + 1)
    owner, came_from = [0] * (columns + 1), [0] * (columns + 1)
    for row in range(1, rows + 1):
        owner[0] = row
        column = 0
        least: list[int | None] = [None] * (columns + 1)
        used = [False] * (columns + 1)
        while owner[column]:
            used[column] = True
            current, step, following = owner[column], None, 0
            for other in range(1, columns + 1):
                if used[other]:
                    continue
                reduced = cost[current - 1][other] - row_potential[current] - column_potential[other]
                best = least[other]
                if best is None or reduced < best:
                    least[other] = best = reduced
                    came_from[other] = column
                if step is None or best < step:
                    step, following = best, other
            for other in range(columns + 1):
                if used[other]:
                    row_potential[owner[other]] += step or 0
                    column_potential[other] -= step or 0
                elif (best := least[other]) is not None:
                    least[other] = best - (step or 0)
            column = following
        while column:
            owner[column] = owner[came_from[column]]
            column = came_from[column]
    pairs: Pairs = [None] * rows
    for column in range(1, real + 1):
        if owner[column] and weights[owner[column] - 1][column - 1]:
            pairs[owner[column] - 1] = column - 1
    return pairs


def in_order(weights: Weights) -> Pairs:
    """Each done at most once, in the order expected, others between: a weighted longest common subsequence."""
    rows = len(weights)
    columns = len(weights[0]) if rows else 0
    best = [[Fraction(0)] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + weights[i][j])
    pairs: Pairs = [None] * rows
    i = j = 0
    while i < rows and j < columns:
        if weights[i][j] and best[i][j] == best[i + 1][j + 1] + weights[i][j]:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def by_position(weights: Weights) -> Pairs:
    """The first expected is the first done, and so on."""
    return [i if i < len(row) and row[i] else None for i, row in enumerate(weights)]
