"""Writes lines of text in many scripts: those of files, names in all languages (Babel), and lines made from Unicode's data.

python test/tokenizers/lines.py OUT.json COUNT [FILE ...]
"""
import json
import random
import sys
import unicodedata

import regex

out, count, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
chance = random.Random(50)

SCRIPTS = """Latin Greek Cyrillic Armenian Hebrew Arabic Syriac Thaana Nko Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu
Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Cherokee Canadian_Aboriginal Ogham Runic Khmer
Mongolian Hiragana Katakana Bopomofo Han Yi Lisu Vai Javanese Balinese Tifinagh Coptic Gothic Deseret Osage Adlam Linear_B
Cuneiform Egyptian_Hieroglyphs""".split()
LETTERS = {name: regex.compile(rf"\p{{Script={name}}}") for name in SCRIPTS}
ALL = [chr(code) for code in range(0x20, 0x110000) if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")]
BY_SCRIPT = {name: [c for c in ALL if pattern.fullmatch(c)] for name, pattern in LETTERS.items()}
SPACES = ["\t", "\n", "\r", "\r\n", "  ", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000", "\u200b", "\u200d", "\ufeff", "\u0085", "\x0b", "\x00", "\x7f"]
EMOJI = [c for c in ALL if regex.fullmatch(r"\p{Extended_Pictographic}", c)]


def word(letters):
    return "".join(chance.choice(letters) for _ in range(chance.randint(1, 7)))


def of_script():
    letters = BY_SCRIPT[chance.choice(SCRIPTS)]
    between = [" "] * 6 + [", ", ". ", "  ", "-", "'", "\n"]
    return "".join(word(letters) + chance.choice(between) for _ in range(chance.randint(2, 9))).strip()


def emoji():
    def one():
        face = chance.choice(EMOJI) + chance.choice(["", "", "\ufe0f", chr(0x1F3FB + chance.randrange(5))])
        return face + ("\u200d" + chance.choice(EMOJI) if chance.random() < 0.2 else "")

    return chance.choice(["", "ok ", "a"]) + chance.choice(["", " "]).join(one() for _ in range(chance.randint(1, 8)))


def anything():
    return "".join(chance.choice(ALL if chance.random() < 0.7 else SPACES) for _ in range(chance.randint(1, 24)))


def words_and_spaces():
    pieces = ["the", "Don't", "IT'S", "we'LL", "x1", "3.14", "12345678", "_a_b", "naïve", "e\u0301", "()", "!=", "#!", "://", "ﬁ", "İ", "ΟΔΟΣ", "ß"]
    return "".join(chance.choice(pieces) + chance.choice([" ", " ", "", *SPACES]) for _ in range(chance.randint(2, 10)))


def names():
    from babel import Locale
    from babel.localedata import locale_identifiers

    for name in sorted(locale_identifiers()):
        locale = Locale.parse(name)
        for data in (locale.languages, locale.territories):
            words = [str(text) for text in data.values()]
            if words:
                yield " ".join(chance.sample(words, min(len(words), 6)))


lines = [line for file in files for line in open(file, encoding="utf8").read().splitlines() if line.strip()]
try:
    lines += list(names())
except ImportError:
    print("without the names of Babel", file=sys.stderr)
made = [make() for make in [of_script] * 4 + [emoji] * 2 + [anything, words_and_spaces] for _ in range(count // 16)]
lines = chance.sample(lines, min(len(lines), count - len(made))) + made
found = [name for name in SCRIPTS if any(LETTERS[name].search(line) for line in lines)]
json.dump(lines, open(out, "w", encoding="utf8"), ensure_ascii=False)
print(f"{len(lines)} lines in {len(found)} scripts")
