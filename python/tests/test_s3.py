"""Checkpoints at `s3://…`, in a store of the test's own: saved, cut off, gone on from, by one process and by many."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import talweg as tw
from bucket import Bucket
from talweg import _native
from test_launch import ROOT, TALWEG
from test_saved import launch

DIGITS = [sys.executable, str(ROOT / "python/examples/digits.py")]


def is_without(program):
    """Whether a program was built without S3."""
    return b"built without S3" in program.read_bytes()


try:
    _native.Checkpoints("s3:///", 1, 0, False)
except tw.Error as e:
    pytestmark = pytest.mark.skipif("without S3" in str(e), reason="built without the feature s3")

has_launcher = pytest.mark.skipif(TALWEG is None or is_without(TALWEG), reason="there is no talweg command with S3")


def variables(bucket, steps):
    place = {"CHECKPOINTS": "s3://runs/job", "STEPS": str(steps), "TALWEG_THREADS": "1"}
    return {**os.environ, **bucket.variables, **place}


def alone(bucket, steps):
    done = subprocess.run(DIGITS, capture_output=True, text=True, timeout=120, env=variables(bucket, steps))
    assert done.returncode == 0, done.stdout + done.stderr
    return re.search(r"weights (\w+)", done.stdout)[1]


def test_a_run_that_is_killed_while_it_saves_goes_on_from_the_checkpoint_before():
    with Bucket() as whole:
        expected = alone(whole, 45)
        assert "step-0000000040.safetensors" in whole.names("job/")
    with Bucket() as bucket:
        bucket.hold(r"step-0000000040\.safetensors")
        run = subprocess.Popen(DIGITS, env=variables(bucket, 45), stderr=subprocess.DEVNULL)
        assert bucket.is_held.wait(60), "nothing was saved"
        run.kill()
        assert run.wait() == -signal.SIGKILL
        bucket.let_go()
        # A checksum alone is no checkpoint.
        assert [n for n in bucket.names("job/") if n.endswith("ensors")] == ["step-0000000020.safetensors"]
        assert alone(bucket, 45) == expected


@has_launcher
def test_a_job_that_is_killed_before_its_manifest_goes_on_with_other_counts():
    expected = launch([], 45)
    with Bucket() as bucket:
        bucket.hold(r"step-0000000040\.safetensors")
        command = [str(TALWEG), "launch", "--workers", "2", "--servers", "2", *DIGITS]
        env = {**variables(bucket, 45), "TALWEG_PARTS": "1"}
        job = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert bucket.is_held.wait(60), "nothing was saved"
        job.kill()
        job.wait()
        bucket.let_go()
        names = bucket.names("job/")
        assert any(n.startswith("step-0000000040.part-") for n in names), "the servers have written"
        assert "step-0000000020.safetensors" in names and "step-0000000040.safetensors" not in names
        before = dict(bucket.objects)
        assert launch(["--servers", "3"], 45, "s3://runs/job", **bucket.variables, TALWEG_PARTS="1") == expected
        bucket.objects = before
        assert launch([], 45, "s3://runs/job", **bucket.variables) == expected


def test_large_checkpoints_go_up_in_parts(monkeypatch):
    with Bucket() as bucket:
        for name, value in bucket.variables.items():
            monkeypatch.setenv(name, value)
        model = tw.nn.Linear(2_200, 2_200)
        optimizer = tw.optim.SGD(model.parameters())

        def trainer(steps):
            folder = "s3://runs/large"
            data = [(tw.ones(1, 2_200),)] * 4
            return tw.train.Trainer(model, optimizer, data, steps=steps, checkpoints=folder, save_every=2, progress=False)

        history = trainer(2).fit(lambda x: model(x).square().mean())
        assert history.checkpoint == "s3://runs/large/step-0000000002.safetensors"
        read = tw.train.load_checkpoint(history.checkpoint)
        assert (read["weight"].numpy() == model.weight.numpy()).all()
        assert len(bucket.objects["large/step-0000000002.safetensors"]) > 16 << 20 and not bucket.uploads
        saved = model.weight.numpy().copy()
        model.weight.assign(tw.zeros(2_200, 2_200))
        again = trainer(4)
        assert again.resume() == 2 and (model.weight.numpy() == saved).all()


def test_wrong_names_and_keys_are_told_at_once(monkeypatch):
    model = tw.nn.Linear(1, 1)

    def error(url):
        with pytest.raises(tw.Error) as e:
            tw.train.Trainer(model, tw.optim.SGD(model.parameters()), [], checkpoints=url)
        return str(e.value)

    with Bucket() as bucket:
        for name, value in bucket.variables.items():
            monkeypatch.setenv(name, value)
        assert "there is no bucket nowhere at http://127.0.0.1" in error("s3://nowhere/x")
        assert "expected a folder, file:///FOLDER or s3://BUCKET/PREFIX" in error("gs://runs/x")
        assert "s3:/runs/x: a path has taken a slash of the URL away" in error(pathlib.Path("s3://runs/x"))
        bucket.refuses = True
        assert "refused the credentials" in error("s3://runs/x")
