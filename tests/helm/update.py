"""Writes anew what follows from other files: copies, the schema of the services' settings, golden snapshots. Look at the
difference before you commit it."""
import json
import shutil

import chart
import settings


def main():
    copies = chart.copied_files()
    for folder in ("files/dashboards", "files/rules"):
        (chart.CHART / folder).mkdir(parents=True, exist_ok=True)
        for old in (chart.CHART / folder).glob("[!.]*"):
            if old not in copies:
                old.unlink()
    for copy, original in copies.items():
        shutil.copyfile(original, copy)
    path = chart.CHART / "values.schema.json"
    schema = chart.load_json(path)
    schema["definitions"].update(settings.definitions())
    path.write_text(json.dumps(schema, indent=1) + "\n")
    for case in chart.CASES:
        (chart.HERE / "golden" / case.name).write_text(chart.golden_text(case))
    print(f"{len(copies)} copies, {len(chart.CASES)} snapshots")


if __name__ == "__main__":
    main()
