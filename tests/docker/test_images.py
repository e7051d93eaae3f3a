"""What can be said of the Dockerfiles without building them. tests/docker/build builds and runs."""
import functools
import re
import subprocess

import pytest

import chart

DOCKER = chart.ROOT / "deploy/docker"
FILES = [DOCKER / "Dockerfile", DOCKER / "Dockerfile.cuda"]
files = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
KNOWN = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "LABEL", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"}


@functools.cache
def instructions(path):
    """[(word, rest)]: comments dropped, continued lines joined."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def stages(path):
    """[(name or None, base, instructions)]"""
    out = []
    for word, rest in instructions(path):
        if word == "FROM":
            base, *name = re.split(r"\s+AS\s+", rest)
            out.append((name[0] if name else None, base, []))
        elif out:
            out[-1][2].append((word, rest))
    return out


def words_of(stage, word):
    return [rest for name, rest in stage[2] if name == word]


@files
def test_reads_as_a_dockerfile(path):
    assert {word for word, _ in instructions(path)} <= KNOWN
    defaults = dict(rest.split("=", 1) for word, rest in instructions(path)[:3] if word == "ARG" and "=" in rest)
    for _, base, _ in stages(path):
        image = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], base)
        assert re.fullmatch(r"[\w./-]+:[\w.-]+", image) and not image.endswith(":latest"), image


@files
def test_stages_and_sources_exist(path):
    seen = []
    ignored = [line for line in (chart.ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    for stage in stages(path):
        for copy in words_of(stage, "COPY"):
            *options, = re.findall(r"--from=(\S+)", copy)
            sources = [word for word in copy.split() if not word.startswith("--")][:-1]
            if options:
                assert options[0] in seen
                continue
            for source in sources:
                assert (chart.ROOT / source).exists()
                assert not any(source == pattern or source.startswith(pattern + "/") for pattern in ignored)
        for run in words_of(stage, "RUN"):
            assert set(re.findall(r"--mount=\S*from=(\w+)", run)) <= set(seen)
        seen.append(stage[0])


@files
def test_packages_come_without_leftovers(path):
    for stage in stages(path):
        for run in words_of(stage, "RUN"):
            if "apt-get" in run:
                assert "apt-get update" in run and "--no-install-recommends" in run
            if "apt-get" in run or "local/setup" in run:
                assert "rm -rf /var/lib/apt/lists/*" in run, "in the same layer, or it stays in the image"


@files
def test_the_last_stage_is_what_an_operator_expects(path):
    last = stages(path)[-1]
    assert words_of(last, "USER") == ["10001:10001"], "Kubernetes can only tell a number from root"
    names = [word for word, _ in last[2]]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name in ("RUN", "COPY"))
    assert words_of(last, "STOPSIGNAL") == ["SIGTERM"]
    (health,) = words_of(last, "HEALTHCHECK")
    assert health.endswith('CMD ["lynx-probe"]') and "--start-period=" in health
    (labels,) = words_of(last, "LABEL")
    for label in ("title", "description", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in labels
    assert "8000" in words_of(last, "EXPOSE")[0]
    assert not [word for word in words_of(last, "COPY") if "--from=build" not in word]


def runtime_packages(path):
    (install,) = [run for run in words_of(stages(path)[-1], "RUN") if "apt-get install" in run]
    listed = re.search(r"--no-install-recommends (.*?) &&", install)[1]
    return set(listed.split())


def test_both_images_carry_the_same_libraries():
    first, second = (runtime_packages(path) for path in FILES)
    assert first == second


def closure(packages):
    """The packages and what they depend on, among those installed here."""
    seen, todo = set(), set(packages)
    while todo:
        package = todo.pop()
        seen.add(package)
        depends = subprocess.run(["dpkg-query", "-W", "-f", "${Depends},${Pre-Depends}", package], capture_output=True,
                                 text=True).stdout
        todo |= {name.split(":")[0] for name in re.findall(r"(?:^|[,|])\s*([\w.+:-]+)", depends)} - seen
    return seen


def test_every_library_of_the_programs_is_in_the_image():
    have = closure(runtime_packages(FILES[0]))
    for program in ("lynx-router", "lynx-prefill", "lynx-decode"):
        linked = subprocess.run(["ldd", chart.BINARIES / program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"=> (/\S+)", linked):
            real = subprocess.run(["readlink", "-f", library], capture_output=True, text=True).stdout.strip()
            owner = subprocess.run(["dpkg-query", "-S", real, real.removeprefix("/usr")], capture_output=True,
                                   text=True).stdout.split(":")[0]
            assert owner in have, f"{program} needs {library} of package {owner}"


def test_the_tests_packages_stay_out_of_the_build():
    """deploy/local/packages.txt has a line that images stop at."""
    lines = (chart.ROOT / "deploy/local/packages.txt").read_text().splitlines()
    (border,) = [i for i, line in enumerate(lines) if line.startswith("# From here on")]
    build, tests = set(lines[:border]), set(lines[border:])
    assert {"g++", "cmake", "ninja-build"} <= build
    assert {"clang-tidy-16", "prometheus", "buildah"} <= tests


def test_hadolint_has_nothing_to_say():
    """But for DL3008: packages are as fixed as Debian's release is, and security updates must come in."""
    done = subprocess.run([chart.TOOLS / "venv/bin/hadolint", "--ignore", "DL3008", "--no-color", *FILES],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_scripts_are_sound_shell():
    for script in (chart.ROOT / "deploy/docker/lynx-probe", *sorted((chart.HERE.parent / "docker").glob("[!.]*"))):
        if script.is_file() and script.read_bytes().startswith(b"#!"):
            subprocess.run(["bash", "-n", script], check=True)
