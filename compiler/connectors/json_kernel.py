"""Machine code that reads JSON lines of one shape: bytes in, columns out.

A template (:mod:`tracetypes.compiler.connectors.json_template`) says which letters stand around the values of a line, and of
which kind these are. A line is read only where that surely gives what the usual reader gives. The place of every other line is
noted. Letters are read eight at a time. No read goes behind ``safe`` + 8: the reader stops at the line in which it would.
"""

from __future__ import annotations

from typing import Final

from tracetypes.compiler.columns.machine.code import MachineCode

__all__ = [
    "BOOLEAN",
    "DAY",
    "FLOAT",
    "INTEGER",
    "KERNEL",
    "LEAST_POWER",
    "MOST_POWER",
    "NULLABLE",
    "PADDING",
    "SKIPPED",
    "TEXT",
    "TIME",
    "ZONED",
]

INTEGER, FLOAT, BOOLEAN, TEXT, TIME, DAY, SKIPPED = range(7)
"""Kinds of values. ``SKIPPED``: of a field that nobody asks for."""

NULLABLE, ZONED = 16, 32
"""Added to a kind: the value may be null; a time without a zone is one of UTC."""

PADDING: Final = 64
"""Bytes behind the end of a text that the kernel may read."""

LEAST_POWER, MOST_POWER = -64, 64
"""Powers of ten of which the kernel has a table."""

_NUMBER: Final = """
                minus = text[q] == 45
                if minus:
                    q += 1
                first = q
                m = uint64(0)
                while True:
                    digit = int64(text[q]) - 48
                    if digit < 0 or digit > 9:
                        break
                    m = m * uint64(10) + uint64(digit)
                    q += 1
                digits = q - first
                if digits == 0 or (digits > 1 and text[first] == 48):
                    good = 0
                    break
"""
"""The sign and the digits of a number."""

_FRACTION: Final = """
                    behind = q + 1
                    if text[q] == 46:
                        q += 1
                        while True:
                            digit = int64(text[q]) - 48
                            if digit < 0 or digit > 9:
                                break
                            m = m * uint64(10) + uint64(digit)
                            q += 1
                        power = behind - q
                        digits -= power
                        if power == 0:
                            good = 0
                            break
                        whole = False
                    if text[q] == 101 or text[q] == 69:
                        q += 1
                        down = text[q] == 45
                        if down or text[q] == 43:
                            q += 1
                        behind = q
                        exponent = int64(0)
                        while q - behind < 5:
                            digit = int64(text[q]) - 48
                            if digit < 0 or digit > 9:
                                break
                            exponent = exponent * 10 + digit
                            q += 1
                        if q == behind:
                            good = 0
                            break
                        power += -exponent if down else exponent
                        whole = False
"""
"""What follows the digits of a number that may be a float: ``power`` of ten, and whether it is ``whole``."""

_DATE: Final = """
                        if q > safe - 40:
                            good = 2
                            break
                        if text[q] != 34:
                            good = 0
                            break
                        q += 1
                        bad = False
                        year = int64(0)
                        for at in range(4):
                            digit = int64(text[q + at]) - 48
                            bad = bad or digit < 0 or digit > 9
                            year = year * 10 + digit
                        month = (int64(text[q + 5]) - 48) * 10 + int64(text[q + 6]) - 48
                        day = (int64(text[q + 8]) - 48) * 10 + int64(text[q + 9]) - 48
                        for at in (5, 6, 8, 9):
                            bad = bad or text[q + at] < 48 or text[q + at] > 57
                        bad = bad or text[q + 4] != 45 or text[q + 7] != 45
                        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
                        last = 29 if leap else 28
                        if month != 2:
                            last = 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31
                        if bad or year < 1000 or year > 9998 or month < 1 or month > 12 or day < 1 or day > last:
                            good = 0
                            break
                        q += 10
                        months = year * 12 + month - 3
                        years = months // 12
                        months = months % 12
                        era = years // 400
                        years -= era * 400
                        stamp = era * 146097 + years * 365 + years // 4 - years // 100 + (153 * months + 2) // 5 + day - 719469
"""
"""The days since 1970 of a date."""

_CLOCK: Final = """
                            bad = text[q] != 84 and text[q] != 32
                            for at in (1, 2, 4, 5, 7, 8):
                                bad = bad or text[q + at] < 48 or text[q + at] > 57
                            hour = (int64(text[q + 1]) - 48) * 10 + int64(text[q + 2]) - 48
                            minute = (int64(text[q + 4]) - 48) * 10 + int64(text[q + 5]) - 48
                            second = (int64(text[q + 7]) - 48) * 10 + int64(text[q + 8]) - 48
                            bad = bad or text[q + 3] != 58 or text[q + 6] != 58
                            if bad or hour > 23 or minute > 59 or second > 59:
                                good = 0
                                break
                            q += 9
                            micros = int64(0)
                            if text[q] == 46:
                                q += 1
                                unit = int64(100000)
                                while unit > 0:
                                    digit = int64(text[q]) - 48
                                    if digit < 0 or digit > 9:
                                        break
                                    micros += digit * unit
                                    unit //= 10
                                    q += 1
                                if unit == 100000:
                                    good = 0
                                    break
                            stamp = ((stamp * 24 + hour) * 60 + minute) * 60 + second
                            sign = text[q]
                            if sign == 90:
                                q += 1
                            elif sign == 43 or sign == 45:
                                bad = text[q + 3] != 58
                                for at in (1, 2, 4, 5):
                                    bad = bad or text[q + at] < 48 or text[q + at] > 57
                                hour = (int64(text[q + 1]) - 48) * 10 + int64(text[q + 2]) - 48
                                minute = (int64(text[q + 4]) - 48) * 10 + int64(text[q + 5]) - 48
                                if bad or hour > 23 or minute > 59:
                                    good = 0
                                    break
                                offset = (hour * 60 + minute) * 60
                                stamp += offset if sign == 45 else -offset
                                q += 6
                            elif kinds[f] & 32 == 0:
                                good = 0
                                break
                            stamp = stamp * 1000000 + micros
"""
"""The microseconds since 1970 of a time behind a date."""

_UTF8: Final = """
                        v = start
                        while v < q:
                            c = text[v]
                            v += 1
                            if c < 128:
                                continue
                            more = int64(3)
                            least = int64(128)
                            most = int64(191)
                            if c < 194 or c > 244:
                                good = 0
                                break
                            if c < 224:
                                more = 1
                            elif c < 240:
                                more = 2
                                if c == 224:
                                    least = 160
                                elif c == 237:
                                    most = 159
                            elif c == 240:
                                least = 144
                            elif c == 244:
                                most = 143
                            while more > 0:
                                c = text[v]
                                if c < least or c > most:
                                    good = 0
                                    break
                                least = int64(128)
                                most = int64(191)
                                v += 1
                                more -= 1
                            if good != 1:
                                break
                        if good != 1:
                            break
"""
"""Whether a text is well-formed UTF-8 (Unicode 15, table 3-7)."""

_SOURCE: Final = f"""
def kernel(
    text, end, safe, base, fields, capacity, most_others, width,
    words, masks, sizes, firsts, kinds, places,
    numbers, floats, valid, offsets, data, tens, fives, others, answer,
):
    ONES = uint64(0x0101010101010101)
    HIGHS = uint64(0x8080808080808080)
    SPACES = uint64(0x2020202020202020)
    QUOTES = uint64(0x2222222222222222)
    SLASHES = uint64(0x5C5C5C5C5C5C5C5C)
    q = answer[0]
    row = answer[1]
    other = answer[2]
    status = int64(0)
    while q < end and row + other < capacity:
        begin = q
        good = int64(1)
        f = int64(0)
        while True:
            word = firsts[f]
            f_end = firsts[f + 1]
            while word < f_end:
                if q > safe:
                    good = 2
                    break
                if load64(text, q) & masks[word] != words[word]:
                    good = 0
                    break
                q += sizes[word]
                word += 1
            if good != 1 or f == fields:
                break
            kind = kinds[f] & 15
            place = places[f]
            slot = place * capacity + row
            f += 1
            if kinds[f - 1] & 16 != 0:
                if q > safe:
                    good = 2
                    break
                if load64(text, q) & uint64(0xFFFFFFFF) == uint64(0x6C6C756E):
                    q += 4
                    valid[slot] = 0
                    numbers[slot] = 0
                    if kind == {TEXT}:
                        offsets[slot + place + 1] = offsets[slot + place]
                    continue
                valid[slot] = 1
            if kind == {TEXT} or (kind == {SKIPPED} and text[q] == 34):
                if text[q] != 34:
                    good = 0
                    break
                q += 1
                start = q
                into = place * width
                if kind == {TEXT}:
                    into += int64(offsets[slot + place])
                high = uint64(0)
                while True:
                    if q > safe:
                        good = 2
                        break
                    w = load64(text, q)
                    store64(data, into, w)
                    a = w ^ QUOTES
                    b = w ^ SLASHES
                    stop = (((a - ONES) & ~a) | ((b - ONES) & ~b) | ((w - SPACES) & ~w)) & HIGHS
                    if stop != uint64(0):
                        n = trailing_zeros(stop) >> 3
                        high |= w & ((uint64(1) << uint64(8 * n)) - uint64(1))
                        q += n
                        into += n
                        break
                    high |= w
                    q += 8
                    if kind == {TEXT}:
                        into += 8
                if good != 1:
                    break
                if text[q] != 34:
                    good = 0
                    break
                if high & HIGHS != uint64(0):
{_UTF8}
                q += 1
                if kind == {TEXT}:
                    offsets[slot + place + 1] = int32(into - place * width)
            elif kind == {INTEGER}:
{_NUMBER}
                if digits > 18:
                    good = 0
                    break
                numbers[slot] = -int64(m) if minus else int64(m)
            elif kind == {BOOLEAN} or (kind == {SKIPPED} and (text[q] == 116 or text[q] == 102 or text[q] == 110)):
                if q > safe:
                    good = 2
                    break
                w = load64(text, q)
                if w & uint64(0xFFFFFFFF) == uint64(0x65757274):
                    if kind == {BOOLEAN}:
                        numbers[slot] = 1
                    q += 4
                elif w & uint64(0xFFFFFFFFFF) == uint64(0x65736C6166):
                    if kind == {BOOLEAN}:
                        numbers[slot] = 0
                    q += 5
                elif kind == {SKIPPED} and w & uint64(0xFFFFFFFF) == uint64(0x6C6C756E):
                    q += 4
                else:
                    good = 0
                    break
            elif kind == {FLOAT} or kind == {SKIPPED}:
{_NUMBER}
                power = int64(0)
                whole = True
                if True:
{_FRACTION}
                if kind == {FLOAT}:
                    if digits > 19 or power < {LEAST_POWER} or power > {MOST_POWER}:
                        good = 0
                        break
                    x = 0.0
                    if power == 0 or m == uint64(0):
                        x = float64(m)
                    elif m <= uint64(9007199254740992) and power >= -22 and power <= 22:
                        x = float64(m) / tens[-power] if power < 0 else float64(m) * tens[power]
                    else:
                        # Lemire, Number parsing at a gigabyte per second (2021), which needs an m that is not 0.
                        zeros = leading_zeros(m)
                        shifted = m << uint64(zeros)
                        entry = 2 * (power - {LEAST_POWER})
                        upper = multiply_high(shifted, fives[entry])
                        lower = shifted * fives[entry]
                        if upper & uint64(0x1FF) == uint64(0x1FF):
                            more_bits = multiply_high(shifted, fives[entry + 1])
                            lower += more_bits
                            if more_bits > lower:
                                upper += uint64(1)
                        top = upper >> uint64(63)
                        mantissa = upper >> (top + uint64(9))
                        binary = ((217706 * power) >> 16) + 63 + int64(top) - zeros + 1023
                        if lower <= uint64(1) and power >= -4 and power <= 23 and mantissa & uint64(3) == uint64(1):
                            if mantissa << (top + uint64(9)) == upper:
                                mantissa &= ~uint64(1)
                        mantissa += mantissa & uint64(1)
                        mantissa >>= uint64(1)
                        if mantissa >= uint64(1) << uint64(53):
                            mantissa = uint64(1) << uint64(52)
                            binary += 1
                        if binary <= 0 or binary >= 2047:
                            good = 0
                            break
                        x = of_bits((mantissa & ~(uint64(1) << uint64(52))) | (uint64(binary) << uint64(52)))
                    floats[slot] = -x if minus and (m != uint64(0) or not whole) else x
                elif digits > 300:
                    good = 0
                    break
            elif kind == {TIME} or kind == {DAY}:
                if True:
                    if True:
{_DATE}
                        if kind == {TIME}:
{_CLOCK}
                        if text[q] != 34:
                            good = 0
                            break
                        q += 1
                        numbers[slot] = stamp
            else:
                good = 0
                break
        if good == 1:
            row += 1
        elif good == 2:
            q = begin
            status = 1
            break
        else:
            while text[q] != 10:
                q += 1
            q += 1
            if other == most_others:
                q = begin
                status = 2
                break
            others[3 * other] = base + begin
            others[3 * other + 1] = base + q
            others[3 * other + 2] = row
            other += 1
    answer[0] = q
    answer[1] = row
    answer[2] = other
    return status
"""
"""Reads from ``answer[0]`` on. Returns 0 at the end, or when ``capacity`` lines are read; 1 where the next line may end behind
``safe``; 2 when there are more others than ``most_others``. ``answer``: the next place, the rows, the others."""

KERNEL: Final = MachineCode(
    _SOURCE,
    (
        *("const uint8*", *["int64"] * 7, "const uint64*", "const uint64*", *["const int64*"] * 4),
        *("int64*", "float64*", "uint8*", "int32*", "uint8*", "const float64*", "const uint64*", "int64*", "int64*"),
    ),
)
