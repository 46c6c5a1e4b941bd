"""A memory file restores the memory exactly; damaged or forged files raise an error."""

import json
import multiprocessing
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.rows import check_outcomes
from heirloom.storage import archive
from heirloom.transfer.memory import EnvelopeState
from tests.attack import forged

SEED = 0


def drawn_memory(rng, n_tasks=None, **options):
    """Return a memory of partly learned tasks, from an agent that learns D_max."""
    n_states, n_actions = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    memory = hl.TaskMemory(n_states, n_actions, **options)
    agent = hl.LRMaxQInit(
        n_states=n_states,
        n_actions=n_actions,
        gamma=0.9,
        n_known=int(rng.integers(1, 4)),
        p_min=0.3,
        delta=0.3,
        seed=rng,
        memory=memory,
    )
    for i in range(int(rng.integers(5)) if n_tasks is None else n_tasks):
        task = hl.garnet(
            n_states,
            n_actions,
            branching=min(2, n_states),
            gamma=0.9,
            terminating=0.2,
            seed=rng,
        )
        hl.learn(agent, task, episodes=8, max_steps=5, seed=i)
    return memory


def assert_equal(memory, loaded):
    for name in ("n_states", "n_actions", "capacity", "keep", "n_tasks", "uses", "n_first"):
        assert getattr(memory, name) == getattr(loaded, name), name
    assert memory.setting == loaded.setting
    assert (memory.max_Q is None) == (loaded.max_Q is None)
    assert memory.max_Q is None or np.array_equal(memory.max_Q, loaded.max_Q)
    assert memory.learned.keys() == loaded.learned.keys()
    for name, (largest, n_compared) in memory.learned.items():
        assert n_compared == loaded.learned[name][1]
        assert np.array_equal(largest, loaded.learned[name][0])
    for a, b in ((memory.sources, loaded.sources), (memory._first, loaded._first)):
        assert [source.task for source in a] == [source.task for source in b]
        for x, y in zip(a, b, strict=True):
            assert x.n_known == y.n_known
            assert (x.outcomes is None) == (y.outcomes is None)
            x_arrays, y_arrays = (
                (*one.rows, one.Q, one.V, *(one.outcomes or ())) for one in (x, y)
            )
            for left, right in zip(x_arrays, y_arrays, strict=True):
                assert left.dtype == right.dtype
                assert np.array_equal(left, right)
                assert not right.flags.writeable


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tasks.heirloom"


def test_loaded_memory_equals_the_saved_one(path):
    rng = np.random.default_rng(SEED)
    for i in range(60):
        capacity = None if i % 3 else int(rng.integers(1, 4))
        keep = ("first", "latest", "most_used")[i % 3]
        memory = drawn_memory(rng, capacity=capacity, keep=keep)
        memory.save(path)
        assert_equal(memory, hl.TaskMemory.load(path))


def test_saving_a_loaded_memory_writes_the_same_bytes(path):
    memory = drawn_memory(np.random.default_rng(1))
    memory.save(path)
    before = path.read_bytes()
    hl.TaskMemory.load(path).save(path)
    assert path.read_bytes() == before


def test_numpy_reads_the_file_without_heirloom(path):
    memory = drawn_memory(np.random.default_rng(2), n_tasks=3)
    memory.save(path)
    with np.load(path, allow_pickle=False) as file:
        assert np.array_equal(file["Q"], [source.Q for source in memory.sources])
        assert json.loads(file["header.json"])["n_tasks"] == 3


def test_loaded_memory_continues_like_one_that_was_never_saved(path):
    """After each task, a memory that is saved and loaded equals one that is not.

    This includes the first tasks that are kept for comparison.
    """
    for capacity in (None, 1):
        rng = np.random.default_rng(3)
        tasks = [hl.garnet(4, 2, branching=2, gamma=0.9, seed=rng) for _ in range(6)]
        options = {"n_states": 4, "n_actions": 2, "gamma": 0.9, "n_known": 2, "p_min": 0.3}
        unsaved, loaded = (hl.TaskMemory(4, 2, capacity=capacity) for _ in range(2))
        for i, task in enumerate(tasks):
            for memory in (unsaved, loaded):
                agent = hl.LRMaxQInit(memory=memory, delta=0.5, seed=i, **options)
                hl.learn(agent, task, episodes=20, max_steps=6, seed=i)
            loaded.save(path)
            loaded = hl.TaskMemory.load(path)
            assert_equal(unsaved, loaded)
        assert unsaved.learned


def test_memory_of_large_rewards_can_be_read(path):
    """A mean of rewards at the upper end of their range, which rounding must not exceed."""
    reward = 0.1 * 2**40
    options = {"n_states": 1, "n_actions": 1, "gamma": 0.5, "n_known": 3}
    agent = hl.RMax(**options, reward_range=(0, reward), seed=0)
    agent.begin_task()
    for _ in range(3):
        agent.observe(0, 0, reward, 0, terminated=False)
    agent.end_task()
    assert agent.memory.sources[0].rows.R[0] == reward
    agent.memory.save(path)
    assert_equal(agent.memory, hl.TaskMemory.load(path))


def test_agent_with_another_number_of_states_is_refused(path):
    hl.TaskMemory(4, 2).save(path)
    memory = hl.TaskMemory.load(path)
    with pytest.raises(hl.errors.IncompatibleTasks, match="does not fit an agent with 5 states"):
        hl.RMax(n_states=5, n_actions=2, gamma=0.9, n_known=1, memory=memory)


# Damaged and forged files


def mutated(data, rng):
    """Return the bytes of a file with random damage."""
    kind = rng.integers(7)
    data = bytearray(data)
    at = int(rng.integers(len(data)))
    length = int(rng.integers(1, 40))
    if kind == 0:
        del data[at:]
    elif kind == 1:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        data[at : at + length] = rng.bytes(length)
    elif kind == 3:
        del data[at : at + length]
    elif kind == 4:
        data[at:at] = rng.bytes(length)
    elif kind == 5:
        data += rng.bytes(length)
    else:
        data[at : at + length] = bytes(length)
    return bytes(data)


def test_damaged_files_raise_an_error_and_are_left_unchanged(path):
    """Each error names the file."""
    rng = np.random.default_rng(4)
    memory = drawn_memory(rng, n_tasks=3)
    memory.save(path)
    good = path.read_bytes()
    damaged = 0
    for _ in range(2000):
        data = mutated(good, rng)
        if data == good:
            continue
        path.write_bytes(data)
        with pytest.raises(hl.errors.InvalidFile, match=r"tasks\.heirloom"):
            hl.TaskMemory.load(path)
        assert path.read_bytes() == data
        damaged += 1
    assert damaged > 1800
    path.write_bytes(good)
    assert_equal(memory, hl.TaskMemory.load(path))


def test_every_truncated_file_is_refused(path):
    drawn_memory(np.random.default_rng(6), n_tasks=1).save(path)
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(hl.errors.InvalidFile):
            hl.TaskMemory.load(path)


def test_forged_files_with_a_valid_checksum_are_refused_or_safe(path):
    """A file that loads has consistent arrays, so that no kernel can read beyond an array."""
    rng = np.random.default_rng(8)
    memory = drawn_memory(rng, n_tasks=3)
    memory.save(path)
    header, arrays = archive.read(path, "memory")
    junk = (None, -1, 0, 1.5, 10**9, "x", [], {}, True, float("nan"))
    accepted = 0
    for _ in range(1500):
        some_header, some_arrays = json.loads(json.dumps(header)), dict(arrays)
        if rng.random() < 0.5:
            entries = some_header if rng.random() < 0.6 else some_header["setting"]
            key = list(entries)[rng.integers(len(entries))]
            if rng.random() < 0.2:
                del entries[key]
            else:
                entries[key] = junk[rng.integers(len(junk))]
        else:
            name = list(arrays)[rng.integers(len(arrays))]
            array = arrays[name].copy()
            kind = rng.integers(5)
            if kind == 0:
                del some_arrays[name]
            elif kind == 1 and array.size:
                array.flat[rng.integers(array.size)] = (
                    -1 if array.dtype.kind != "f" else rng.choice([-1.0, np.nan, 7.0, np.inf])
                )
                some_arrays[name] = array
            elif kind == 2:
                some_arrays[name] = array.astype(np.float32)
            elif kind == 3:
                some_arrays[name] = array[:-1]
            else:
                some_arrays[name] = array.reshape(-1, 1)
        path.write_bytes(forged.packed(some_header, some_arrays))
        try:
            loaded = hl.TaskMemory.load(path)
        except hl.errors.InvalidFile:
            continue
        accepted += 1
        for source in loaded.sources:
            assert source.rows.successors.max(initial=0) < loaded.n_states
            assert source.rows.last[-1] == source.rows.p.size
            assert np.isfinite(source.Q).all()
            if source.outcomes is not None:
                check_outcomes(
                    source.outcomes, source.rows.counts, source.rows.exist, loaded.n_states
                )
    assert accepted < 500  # some replaced numbers are valid too


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("Q", lambda Q: Q - 1e6, r"Q contains .*, outside \(0, 10\)"),
        ("Q", lambda Q: Q * 0 + 1.7e308, r"Q contains .*, outside \(0, 10\)"),
        ("max_Q", lambda Q: Q - 1e6, r"Q contains .*, outside \(0, 10\)"),
        ("task", lambda t: t[::-1], "do not increase between 1 and 3"),
        ("task", lambda t: np.array([1, 2**63 - 1, 10 - 2**63]), "do not increase between 1 and 3"),
        ("counts", lambda n: -n, "an entry of counts is not from 0"),
        ("counts", lambda n: n + 2**41, "an entry of counts is not from 0"),
        ("counts", lambda n: n * 2, "a pair has fewer visits than in stored tasks"),
        ("visits/times", lambda n: n * 0, "an entry of visits/times is not positive"),
        ("visits/times", lambda n: n + 2**62, "a pair has more than"),
        ("visits/times", lambda n: n[1:], "the array 'visits/times' is"),
        ("visits/outcomes", lambda x: x - 10**6, "is not an outcome of a pair"),
        ("visits/outcomes", lambda x: x + 10**6, "is not an outcome of a pair"),
        ("visits/outcomes", lambda x: x[::-1], "visits/outcomes do not increase"),
        ("visits/outcomes", lambda x: x.astype(np.int32), "the array 'visits/outcomes' is int32"),
        ("visits/rewards", lambda r: r * np.nan, "has an entry that is not finite"),
        ("visits/rewards", lambda r: r + 1.7e308, "a mean reward of all visits is not finite"),
        ("visits/rewards", lambda r: r - 1e6, r"mean reward of .* outside \(0, 1\)"),
        ("visits/rewards", lambda r: r[:1], "the array 'visits/rewards' is"),
        ("lengths", lambda n: -n, "not valid"),
        ("available", lambda a: ~a, "a visited action is not available"),
        ("successors", lambda s: s[::-1], "not in increasing order"),
        ("successors", lambda s: s * 0, "not in increasing order"),
        ("has_outcomes", lambda x: ~x, "a pair without a row has visits"),
        ("has_outcomes", lambda x: x[1:], "the array 'has_outcomes' is"),
        ("outcomes/lengths", lambda n: -n, "first does not increase from 0"),
        (
            "outcomes/lengths",
            lambda n: np.full_like(n, 2**31 - 1),
            "first does not increase from 0",
        ),
        ("outcomes/lengths", lambda n: n[1:], "the array 'outcomes/lengths' is"),
        ("outcomes/states", lambda s: s - 100, "a state is not from"),
        ("outcomes/states", lambda s: s * 0, "not in increasing order"),
        ("outcomes/states", lambda s: s[1:], "the array 'outcomes/times' is"),
        ("outcomes/times", lambda n: n * 0, "an entry of times is not from 1"),
        ("outcomes/times", lambda n: n + 2**62, "an entry of times is not from 1"),
        ("outcomes/times", lambda n: n * 0 + 1, "a pair has fewer visits than its row"),
        ("outcomes/R", lambda r: r * np.nan, "R has an entry that is not finite"),
        ("outcomes/R", lambda r: r - 1e6, r"mean reward of .* outside \(0, 1\)"),
        ("outcomes/varies", lambda x: x.astype(np.uint8), "the array 'outcomes/varies' is"),
        ("outcomes/varies", lambda x: (x + np.uint8(2)).view(bool), "neither true nor false"),
    ],
)
def test_inconsistent_arrays_are_refused(path, name, change, message):
    memory = drawn_memory(np.random.default_rng(12), n_tasks=3)
    memory.save(path)
    header, arrays = archive.read(path, "memory")
    path.write_bytes(forged.packed(header, {**arrays, name: change(arrays[name])}))
    with pytest.raises(hl.errors.InvalidFile, match=message):
        hl.TaskMemory.load(path)


def test_outcomes_of_some_tasks_only_are_restored(path):
    memory = drawn_memory(np.random.default_rng(13), n_tasks=4)
    for i in (0, 2):
        source = memory.sources[i]
        memory._sources[i] = hl.bounds.Source(source.rows, source.Q, source.V, task=source.task)
    memory.save(path)
    loaded = hl.TaskMemory.load(path)
    assert_equal(memory, loaded)
    assert [source.outcomes is None for source in loaded.sources] == [True, False, True, False]


def test_memory_of_a_task_whose_masks_were_observed_in_some_states_only_is_loaded(path):
    agent = hl.RMax(n_states=2, n_actions=2, gamma=0.9, n_known=2, seed=0)
    agent.begin_task()
    for _ in range(2):
        agent.observe(0, 1, 0.5, 1, terminated=False)
    agent.observe_mask(1, np.array([True, False]))
    agent.observe(1, 0, 0.5, 0, terminated=False)
    agent.end_task()
    agent.memory.save(path)
    (source,) = hl.TaskMemory.load(path).sources
    assert source.available.tolist() == [False, True, True, False]


def test_calibration_tasks_that_do_not_increase_are_refused(path):
    memory = drawn_memory(np.random.default_rng(12), n_tasks=5)
    tasks = np.array([2, 3, 5])
    memory.envelopes["x"] = EnvelopeState(np.full(memory.n_pairs, 5.0), np.zeros(3), tasks)
    memory.save(path)
    assert np.array_equal(hl.TaskMemory.load(path).envelopes["x"].tasks, tasks)
    header, arrays = archive.read(path, "memory")
    for changed in (tasks[::-1], tasks - 2, tasks + 1, np.array([1, -(2**63), -1])):
        path.write_bytes(forged.packed(header, {**arrays, "envelope/x/tasks": changed}))
        with pytest.raises(hl.errors.InvalidFile, match="do not increase between 1 and 5"):
            hl.TaskMemory.load(path)


def test_nothing_is_unpickled(path, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    array = np.empty(1, dtype=object)
    array[0] = Trap()
    path.write_bytes(forged.packed({"n_states": 1}, {"Q": array}))
    with pytest.raises(hl.errors.InvalidFile):
        hl.TaskMemory.load(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"S,F,H,G\n", "is not a file of Heirloom"),
        (b"PK\x03\x04 and so on", "is truncated, or not a file of Heirloom"),
    ],
)
def test_files_of_other_programs_are_refused(path, content, message):
    path.write_bytes(content)
    with pytest.raises(hl.errors.InvalidFile, match=message):
        hl.TaskMemory.load(path)


@pytest.mark.parametrize("number", [archive.FORMAT - 1, archive.FORMAT + 1])
def test_file_of_another_format_is_refused(path, number):
    hl.TaskMemory(2, 1).save(path)
    old, new = (f"memory {n} ".encode() for n in (archive.FORMAT, number))
    path.write_bytes(forged.with_checksum(path.read_bytes().replace(old, new)))
    with pytest.raises(
        hl.errors.InvalidFile, match=f"has format {number}, and this version .* reads"
    ):
        hl.TaskMemory.load(path)


def test_file_of_another_kind_is_refused(path):
    hl.garnet(2, 1, branching=1, gamma=0.9, seed=0).save(path)
    with pytest.raises(hl.errors.InvalidFile, match="is a file of kind 'task', not 'memory'"):
        hl.TaskMemory.load(path)


def test_memory_is_loaded_from_the_file_of_an_agent(path):
    memory = drawn_memory(np.random.default_rng(5), n_tasks=3)
    options = {"n_states": memory.n_states, "n_actions": memory.n_actions, "n_known": 1}
    hl.RMax(gamma=0.9, memory=memory, **options).save(path)
    assert_equal(memory, hl.TaskMemory.load(path))


def test_changed_attribute_that_could_not_be_loaded_is_not_saved(path):
    memory = hl.TaskMemory(2, 1)
    memory.keep = "oldest"
    with pytest.raises(hl.errors.InvalidArgument, match="keep is 'oldest'"):
        memory.save(path)
    assert not path.exists()


def test_memory_whose_capacity_was_changed_can_be_loaded(path):
    memory = drawn_memory(np.random.default_rng(11), n_tasks=4)
    for capacity in (2, None):
        memory.capacity = capacity
        memory.save(path)
        assert_equal(memory, hl.TaskMemory.load(path))


def test_missing_file_is_refused(path):
    with pytest.raises(hl.errors.InvalidFile, match="cannot be read"):
        hl.TaskMemory.load(path)


# Writing


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(hl.errors.CannotWrite, match="create its folder, or choose an existing one"):
        hl.TaskMemory(2, 1).save(tmp_path / "nowhere" / "tasks.heirloom")


def test_full_disk_leaves_the_old_file(path):
    """A limit on the size of files simulates a full disk."""
    drawn_memory(np.random.default_rng(9), n_tasks=1).save(path)
    before = path.read_bytes()
    larger = drawn_memory(np.random.default_rng(9), n_tasks=4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
        with pytest.raises(hl.errors.CannotWrite, match="free some disk space"):
            larger.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    larger.save(path)
    assert_equal(larger, hl.TaskMemory.load(path))


def test_unusable_paths_are_refused(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for bad in (tmp_path / ("x" * 300), None, loop / "tasks", tmp_path):
        with pytest.raises(hl.errors.CannotWrite, match="could not be written"):
            hl.TaskMemory(2, 1).save(bad)
    with pytest.raises(hl.errors.InvalidFile, match="cannot be read"):
        hl.TaskMemory.load(None)
    assert os.listdir(tmp_path) == ["loop"]


def test_saving_keeps_the_permissions_of_the_file(path):
    hl.TaskMemory(2, 1).save(path)
    usual = path.stat().st_mode & 0o777
    assert usual & 0o400
    path.chmod(0o640)
    hl.TaskMemory(3, 1).save(path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_temporary_file_of_another_process_is_left_unchanged(path):
    other = path.with_name(f".{path.name}.other")
    other.write_bytes(b"half")
    hl.TaskMemory(2, 1).save(path)
    assert other.read_bytes() == b"half"


def _replace_forever(path, small, large):
    while True:
        for data in (small, large):
            archive.write_atomically(Path(path), data)


def test_readers_see_either_the_old_or_the_new_memory(path):
    """Another process replaces the file again and again while it is read."""
    rng = np.random.default_rng(10)
    memories = [drawn_memory(rng, n_tasks=n) for n in (1, 4)]
    contents = []
    for memory in memories:
        memory.save(path)
        contents.append(path.read_bytes())
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=_replace_forever, args=(path, *contents), daemon=True)
    writer.start()
    try:
        seen = set()
        for _ in range(20_000):
            seen.add(hl.TaskMemory.load(path).n_tasks)
            if len(seen) == 2 and _ > 300:
                break
    finally:
        writer.kill()
        writer.join()
    assert seen == {1, 4}
