"""Words are aligned by counting."""

from transformer.data.statistical_alignment import statistical_alignments


def test_the_statistical_aligner_takes_empty_lines() -> None:
    pairs = [("a b", "x y"), ("", "x"), ("a", ""), ("", ""), ("b a", "y x")] * 3
    links = statistical_alignments(pairs)
    assert links[:5] == [[(0, 0), (1, 1)], [], [], [], [(0, 0), (1, 1)]]
    assert statistical_alignments([("", "")]) == [[]]


def test_words_that_differ_in_a_last_mark_are_two() -> None:
    def links(x: str, y: str) -> list[list[tuple[int, int]]]:
        return statistical_alignments([("a b", f"{y} {x}."), *[("a", x), ("b", f"({y})")] * 9])

    assert links("कि", "की") == links("x", "y")
    assert links("x", "y")[0] == [(1, 0), (0, 1)]
