"""Writes character_tables.h: the classes of characters that Hugging Face's `tokenizers` use.

The library compiles in tables of several versions of Unicode, so the tables come from its answers:

    python tools/runner/llm/character_tables.py > tools/runner/llm/character_tables.h
"""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import normalizers, pre_tokenizers

_CLEANS = normalizers.BertNormalizer(
    clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False
)
_STRIPS = normalizers.BertNormalizer(
    clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
)
_ACCENTS = normalizers.StripAccents()
_PUNCTUATION = pre_tokenizers.Punctuation()

_TABLES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "kRemoved": (
        "BertNormalizer's clean_text removes these.",
        lambda c: not _CLEANS.normalize_str(c),
    ),
    "kNonspacing": (
        "BertNormalizer's strip_accents removes these from decomposed text.",
        lambda c: not _STRIPS.normalize_str(c),
    ),
    "kMarks": ("StripAccents removes these.", lambda c: not _ACCENTS.normalize_str(c)),
    "kPunctuation": (
        "Punctuation and BertPreTokenizer isolate these.",
        lambda c: len(_PUNCTUATION.pre_tokenize_str(f"a{c}")) == 2,
    ),
}


def ranges(holds: Callable[[str], bool]) -> list[tuple[int, int]]:
    """The ranges of code points for which `holds`, in order.

    Example:
      >>> ranges(lambda character: character in "xyA")
      [(65, 65), (120, 121)]
    """
    found: list[tuple[int, int]] = []
    for point in (*range(0xD800), *range(0xE000, 0x110000)):
        if not holds(chr(point)):
            continue
        if found and found[-1][1] == point - 1:
            found[-1] = (found[-1][0], point)
        else:
            found.append((point, point))
    return found


def main() -> None:
    print(
        "// Classes of characters as Hugging Face's tokenizers have them; by character_tables.py."
    )
    print("#pragma once\n\n#include <cstddef>\n#include <cstdint>\n\nnamespace runner {\n")
    print("struct CharacterRange {\n  uint32_t first;\n  uint32_t last;\n};\n")
    print("// Whether a sorted table has the character.")
    print("template <size_t kCount>")
    print("bool is_in(const CharacterRange (&table)[kCount], uint32_t point) {")
    print("  size_t first = 0;")
    print("  for (size_t last = kCount; first < last;) {")
    print("    const size_t middle = (first + last) / 2;")
    print("    table[middle].last < point ? first = middle + 1 : last = middle;")
    print("  }")
    print("  return first < kCount && table[first].first <= point;\n}\n")
    for name, (comment, holds) in _TABLES.items():
        entries = [f"{{0x{first:X}, 0x{last:X}}}," for first, last in ranges(holds)]
        print(f"// {comment}\ninline constexpr CharacterRange {name}[] = {{")
        for start in range(0, len(entries), 5):
            print("    " + " ".join(entries[start : start + 5]))
        print("};\n")
    print("}  // namespace runner")


if __name__ == "__main__":
    main()
