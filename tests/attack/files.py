"""Hostile memory and agent files: damaged, truncated, forged, and larger inside than outside."""

import argparse
import json
import resource
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import heirloom as hl
from heirloom.storage import archive
from tests.attack import forged

MOST_MEMORY = 2**30  # bytes
JUNK = (
    None,
    -1,
    0,
    1.5,
    10**9,
    2**63,
    10**400,
    "x",
    "",
    [],
    {},
    [[]],
    True,
    float("nan"),
    "\x1b[2J",
)


def learned_agent():
    """Return a small agent with a memory of three tasks."""
    rng = np.random.default_rng(0)
    options = {"n_states": 4, "n_actions": 2, "gamma": 0.9, "n_known": 2, "seed": 0}
    agent = hl.LRMaxQInit(p_min=0.3, delta=0.3, **options)
    for i in range(3):
        task = hl.garnet(4, 2, branching=2, gamma=0.9, terminating=0.2, seed=rng)
        hl.learn(agent, task, episodes=8, max_steps=5, seed=i)
    return agent


class Attacks:
    """Draws hostile files of one kind; `draw` returns a name of the attack and the bytes."""

    def __init__(self, kind, path):
        self.kind, self.good = kind, path.read_bytes()
        self.header, self.arrays = archive.read(path, kind)

    def draw(self, rng):
        name = ("damage", "damage", "truncation", "header", "header", "array", "array", "claim")
        chosen = (*name, "members", "bomb")[rng.integers(len(name) + 2)]
        return chosen, getattr(self, f"_{chosen}")(rng)

    def _damage(self, rng):
        data = bytearray(self.good)
        for _ in range(int(rng.integers(1, 4))):
            at, n = int(rng.integers(len(data))), int(rng.integers(1, 40))
            new = (rng.bytes(n), b"", bytes(n), b"\xff" * n)[rng.integers(4)]
            data[at : at + n * int(rng.integers(2))] = new
        # Half of the damaged files have a valid checksum, so that what is behind it is read.
        return forged.with_checksum(bytes(data)) if rng.random() < 0.5 else bytes(data)

    def _truncation(self, rng):
        return self.good[: int(rng.integers(len(self.good)))]

    def _header(self, rng):
        header = json.loads(json.dumps(self.header))
        for _ in range(int(rng.integers(1, 3))):
            table = header
            while True:
                key = list(table)[rng.integers(len(table))]
                if isinstance(table[key], dict) and table[key] and rng.random() < 0.6:
                    table = table[key]
                else:
                    break
            if rng.random() < 0.2:
                table.pop(key)
            else:
                table[str(key) if rng.random() < 0.8 else "new\n\x1b"] = JUNK[
                    rng.integers(len(JUNK))
                ]
            if not table or not header:
                break
        return forged.packed(header, self.arrays, kind=self.kind)

    def _array(self, rng):
        arrays = dict(self.arrays)
        name = list(arrays)[rng.integers(len(arrays))]
        array = arrays[name].copy()
        choice = rng.integers(8)
        if choice == 0:
            del arrays[name]
        elif choice == 1 and array.size:
            special = [-1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324]
            whole = [-1, np.iinfo(np.int8).max, 2, 0]
            values = special if array.dtype.kind == "f" else whole
            array.flat[rng.integers(array.size)] = values[rng.integers(len(values))]
            arrays[name] = array
        elif choice == 2:
            arrays[name] = array.astype([np.float32, np.int64, np.complex128][rng.integers(3)])
        elif choice == 3:
            arrays[name] = array[:-1] if array.ndim else array
        elif choice == 4:
            arrays[name] = np.concatenate([array, array]) if array.ndim else array
        elif choice == 5:
            arrays[name] = array.reshape(-1, 1)
        elif choice == 6:
            arrays[name] = np.array([{"a": 1}], dtype=object)
        else:
            arrays[f"{name}\x1b"] = arrays.pop(name)
        return forged.packed(self.header, arrays, kind=self.kind)

    def _claim(self, rng):
        """Forge the sizes and types that the start of an array claims."""
        name = list(self.arrays)[rng.integers(len(self.arrays))]
        member = forged.npy(self.arrays[name])
        shapes = (b"(10**9, 9)", b"(99999999999,)", b"(-1,)", b"(0, 99999999999)", b"(((((((((1")
        claims = (b"{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", b"{%s}", b"%s")
        claim = claims[rng.integers(3)] % shapes[rng.integers(len(shapes))]
        claim = claim if rng.random() < 0.7 else claim.replace(b"<f8", b"|O8")
        start = member[:8] + len(claim).to_bytes(2, "little") + claim
        members = [("header.json", json.dumps(self.header).encode())]
        members += [
            (f"{each}.npy", start + member[-64:] if each == name else forged.npy(array))
            for each, array in self.arrays.items()
        ]
        return forged.archive_of(members, kind=self.kind)

    def _members(self, rng):
        """Repeat, rename or compress members, or let them overlap."""
        members = [("header.json", json.dumps(self.header).encode())]
        members += [(f"{name}.npy", forged.npy(array)) for name, array in self.arrays.items()]
        choice = rng.integers(4)
        if choice == 0:
            members.append(members[rng.integers(len(members))])
        elif choice == 1:
            i = rng.integers(len(members))
            members[i] = (("../../x", "/etc/x", "x\x00y", "\x1b[2J", ".npy")[rng.integers(5)], b"x")
        elif choice == 2:
            return forged.archive_of(members, kind=self.kind, compression=8)
        else:
            size, n = int(rng.integers(1, 2**16)), int(rng.integers(2, 1000))
            return forged.overlapping(bytes(size), n, kind=self.kind)
        return forged.archive_of(members, kind=self.kind)

    def _bomb(self, rng):
        choice = rng.integers(4)
        if choice == 0:  # a thousand members of a megabyte each, in a file of little more than one
            return forged.overlapping(bytes(2**20), 1000, kind=self.kind)
        if choice == 1:  # zeros that are compressed a thousandfold
            members = [("header.json", b"{}"), ("R.npy", bytes(2**24))]
            return forged.archive_of(members, kind=self.kind, compression=8)
        if choice == 2:  # JSON that is nested deeply, or has many lists
            text = (b"[" * 10**5, b"[" + b"[]," * 2**17 + b"0]", b'{"a":' * 10**5)[rng.integers(3)]
            return forged.archive_of([("header.json", text)], kind=self.kind)
        return forged.ended(b"", b"PK\1\2" + bytes(int(rng.integers(2**22))), 2**16, kind=self.kind)


def attack(count, folder, seed=0):
    """Load `count` hostile files; return how often each attack was refused, accepted or failed."""
    agent = learned_agent()
    good = {"memory": folder / "good-memory", "agent": folder / "good-agent"}
    agent.memory.save(good["memory"])
    agent.save(good["agent"])
    load = {"memory": hl.TaskMemory.load, "agent": hl.OptimisticAgent.load}
    rng, outcomes, failures = np.random.default_rng(seed), Counter(), []
    kinds = [Attacks(kind, path) for kind, path in good.items()]
    target = folder / "hostile"
    for i in range(count):
        attacks = kinds[i % 2]
        name, data = attacks.draw(rng)
        target.write_bytes(data)
        try:
            load[attacks.kind](target)
            outcomes[name, "accepted"] += 1
        except hl.errors.HeirloomError as error:
            outcomes[name, "refused"] += 1
            if not str(error).isprintable():
                failures.append(f"{i}: {attacks.kind}, {name}: control characters in {error!r}")
        except Exception as error:
            failures.append(f"{i}: {attacks.kind}, {name}: {type(error).__name__}: {error}")
    return outcomes, failures


def main(argv):
    """Run the attack and print what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack files")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        outcomes, failures = attack(options.count, Path(folder), options.seed)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for (name, outcome), n in sorted(outcomes.items()):
        print(f"{name:<12} {outcome:<9} {n:>6}")
    for failure in failures[:20]:
        print(failure)
    print(f"{options.count} files, {len(failures)} failures, {memory / 2**20:.0f} MiB of memory")
    return int(bool(failures) or memory > MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
