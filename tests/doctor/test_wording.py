from __future__ import annotations

from trainer.doctor.wording import ms, rate, several, share, size


def test_quantities_have_as_many_digits_as_they_deserve():
    assert [ms(value) for value in (0.123, 5.31, 99.6, 870.4, 31500)] == [
        "0.12 ms",
        "5.3 ms",
        "100 ms",
        "870 ms",
        "31.5 s",
    ]
    assert [size(value) for value in (97.5 * 2**20, 340008)] == ["97.5 MiB", "332 KiB"]
    assert [rate(value) for value in (0.9361, 25, 1200)] == ["0.936 Gbit/s", "25 Gbit/s", "1,200 Gbit/s"]
    assert share(0.123) == "12 %"
    assert [several(count, "bucket") for count in (1, 3)] == ["1 bucket", "3 buckets"]
