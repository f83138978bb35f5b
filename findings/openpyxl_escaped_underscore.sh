#!/usr/bin/env bash
# openpyxl 3.1.5: two texts of a workbook are read as one, and `x005F_` is removed, without an error.
#
# Excel writes a line break as `_x000D_`, and the text `_x000D_` itself as `_x005F_x000D_`. openpyxl
# decodes neither, but removes `x005F_` from each shared string, so both become `_x000D_`. A reader
# that decodes the escapes of what openpyxl returns changes the second one. A subclass of
# openpyxl.reader.excel.ExcelReader that overrides read_strings keeps the texts as they are written.
# Seen: the texts below.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openpyxl==3.1.5 xlsxwriter==3.3.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import xlsxwriter
from openpyxl import load_workbook

texts = ["a\rb", "a_x000D_b", "ax005F_b"]
with xlsxwriter.Workbook("f.xlsx") as book:
    book.add_worksheet().write_column(0, 0, texts)
found = [cell.value for (cell,) in load_workbook("f.xlsx").active.iter_rows()]
print(texts, "->", found)
assert found == ["a_x000D_b", "a_x000D_b", "ab"], "openpyxl keeps the texts now"
PYTHON
