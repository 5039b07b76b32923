#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/alerts.yml: lw_stats_prometheus exposes each metric of the rules, with the label
values that they require, and Prometheus' own parser reads the output.

The output of exposition.c is parsed into samples, which must include the names in the rules.
promtool (scripts/setup ci fetches it) checks both, and plays for each alert an hour in which this
alert, and no other, should fire. These numbers are written down here. Those of leaders and
standbys, and of jobs behind one that is stuck, are the library's own: test/sim/hour.c lives through
an hour in virtual time and prints the metrics of each process, minute by minute.
"""
import collections
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from prometheus_client.parser import text_string_to_metric_families

ALERTS = os.path.join(os.environ["LOCKWIRE_EXAMPLES"], "alerts.yml")
FETCHED = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../../build/deps/prometheus/promtool")
PROMTOOL = FETCHED if os.path.exists(FETCHED) else shutil.which("promtool")
HOUR = os.environ.get("LOCKWIRE_HOUR") # built with lua

# The metrics of a healthy process, minute by minute: the first value, then a step for each
# minute.
WELL = {
    'link_up{}': "1x60", 'subscription_up{}': "1x60", 'waiting{}': "3x60", 'standby{}': "2x60",
    'granted_total{}': "0+100x60", 'degraded{capability="publish"}': "0x60",
    'failed_total{}': "0x60", 'timed_out_total{}': "0+1x60",
    'lost_total{reason="deadline"}': "0x60", 'lost_total{reason="taken"}': "0x60",
    'lost_total{reason="max_hold"}': "0x60", 'handed_over_total{}': "0+50x60",
    'passed_total{}': "0+10x60", 'renewed_total{}': "0+1000x60",
    'renewals_late_total{}': "0+1x60", 'resent_total{}': "0x60",
    'reconnects_total{}': "0x60", 'failovers_total{}': "0x60",
    'wait_seconds_bucket{le="0.256"}': "0+90x60",
    'wait_seconds_bucket{le="4.096"}': "0+99x60",
    'wait_seconds_bucket{le="8.192"}': "0+100x60",
    'wait_seconds_bucket{le="16.384"}': "0+100x60",
    'wait_seconds_bucket{le="+Inf"}': "0+100x60", 'wait_seconds_count{}': "0+100x60",
}
# The changes for each alert that should fire after 40 minutes.
AILING = {
    "LockwireNoLink": {'link_up{}': "0x60"},
    "LockwireNoMessages": {'subscription_up{}': "0x60"},
    "LockwireDegraded": {'degraded{capability="publish"}': "1x60"},
    "LockwireLostByDeadline": {'lost_total{reason="deadline"}': "0x35 1x25"},
    "LockwireLostToOthers": {'lost_total{reason="taken"}': "0x35 2x25"},
    "LockwireHeldTooLong": {'lost_total{reason="max_hold"}': "0x5 1x55"},
    "LockwireRenewalsLate": {'renewals_late_total{}': "0+20x60"},
    "LockwireReconnects": {'reconnects_total{}': "0+2x60"},
    "LockwireUnknownOutcomes": {'resent_total{}': "0+2x60"},
    "LockwireFailures": {'failed_total{}': "0+10x60"},
    "LockwireWaitsLong": {'wait_seconds_bucket{le="4.096"}': "0+97x60",
                          'wait_seconds_bucket{le="8.192"}': "0+98x60"},
    "LockwireTimeouts": {'timed_out_total{}': "0+20x60"},
    "LockwireStuck": {'granted_total{}': "100x60", 'timed_out_total{}': "0x60"},
    "LockwireNoTurns": {'handed_over_total{}': "7x60", 'passed_total{}': "0x60"},
    "LockwireFailover": {'failovers_total{}': "0x35 1x25"},
}


def expose():
    return subprocess.run([os.environ["LOCKWIRE_EXPOSITION"]], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def play(alert, changes):
    """Returns a test for promtool, in JSON, which is also YAML."""
    def name(series):
        return "lockwire_" + series.replace("{", '{instance="i",job="j",').replace(",}", "}")
    firing = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    return {"interval": "1m",
            "input_series": [{"series": name(series), "values": values}
                             for series, values in {**WELL, **changes}.items()],
            "promql_expr_test": [{"expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                                  "eval_time": "40m", "exp_samples": firing}]}


def live(scene):
    """Returns the series of an hour: the name with its labels, and a value for each minute."""
    text = subprocess.run([HOUR, scene], check=True, stdout=subprocess.PIPE, text=True).stdout
    series, minutes = collections.defaultdict(dict), 0
    for minute, process, metrics in re.findall(r"# minute (\d+) process (\d+)\n((?:(?!# minute).*\n)*)",
                                               text):
        minutes = int(minute) + 1
        for family in text_string_to_metric_families(metrics):
            for sample in family.samples:
                labels = {"instance": process, "job": "j", **sample.labels}
                name = ",".join(f'{label}="{value}"' for label, value in labels.items())
                series[f"{sample.name}{{{name}}}"][int(minute)] = sample.value
    return {name: " ".join(str(values.get(minute, "_")) for minute in range(minutes))
            for name, values in series.items()}


def expect(scene, firing):
    """Returns a test for promtool. `firing` gives for a minute what fires, pairs of an alert and a
    process, or None where a minute or two decide."""
    return {"interval": "1m",
            "input_series": [{"series": series, "values": values}
                             for series, values in live(scene).items()],
            "promql_expr_test": [
                {"expr": 'count by (alertname, instance) (ALERTS{alertstate="firing"})',
                 "eval_time": f"{minute}m",
                 "exp_samples": [{"labels": f'{{alertname="{alert}",instance="{process}"}}',
                                  "value": 1} for alert, process in firing(minute)]}
                for minute in range(61) if firing(minute) is not None]}


class Exposition(unittest.TestCase):
    def setUp(self):
        self.families = list(text_string_to_metric_families(expose()))

    def test_each_family_is_one(self):
        names = [family.name for family in self.families]
        self.assertEqual(len(names), len(set(names)))
        for family in self.families:
            self.assertIn(family.type, ("counter", "gauge", "histogram"))
            self.assertRegex(family.documentation, r"^[A-Z].*\.$")
            self.assertTrue(family.samples)

    def test_labels_come_through(self):
        held = next(family for family in self.families if family.name == "lockwire_held")
        self.assertEqual([(sample.labels, sample.value) for sample in held.samples],
                         [({"client": "a", "quoted": '"\\\n'}, 1), ({"client": "b"}, 2)])

    def test_the_histogram_is_one(self):
        waits = next(family for family in self.families if family.type == "histogram")
        for client in "ab":
            samples = [s for s in waits.samples if s.labels["client"] == client]
            buckets = [(float(s.labels["le"]), s.value) for s in samples
                       if s.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual([n for _, n in buckets], sorted(n for _, n in buckets))
            count, = (s.value for s in samples if s.name.endswith("_count"))
            self.assertEqual(buckets[-1], (float("inf"), count))


class Alerts(unittest.TestCase):
    def setUp(self):
        rules = read(ALERTS)
        self.rules = re.sub(r"^ *#.*\n", "", rules, flags=re.M)
        self.samples = {(sample.name, name, value)
                        for family in text_string_to_metric_families(expose())
                        for sample in family.samples
                        for name, value in [*sample.labels.items(), (None, None)]}

    def test_what_they_ask_for_is_exposed(self):
        asked = re.findall(r'\b(lockwire_\w+)(?:\{(\w+)="([^"]*)"\})?', self.rules)
        self.assertGreater(len(asked), 15)
        for name, label, value in asked:
            self.assertIn((name, label or None, value or None), self.samples)

    def test_each_has_its_reason(self):
        """A comment directly before each alert says what to do."""
        comments = re.findall(r"((?:^ *#.*\n)+) *- alert: (\w+)", read(ALERTS), re.M)
        self.assertEqual([name for _, name in comments],
                         re.findall(r"- alert: (\w+)", self.rules))
        for comment, name in comments:
            self.assertIn(" Do: ", comment, name)

    def test_each_is_played(self):
        self.assertEqual(sorted(AILING), sorted(re.findall(r"- alert: (\w+)", self.rules)))
        for changes in AILING.values():
            self.assertLessEqual(set(changes), set(WELL))


@unittest.skipUnless(PROMTOOL, "promtool is not on this machine")
class Promtool(unittest.TestCase):
    def accepts(self, *words, text=None):
        done = subprocess.run([PROMTOOL, *words], input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_exposition(self):
        self.accepts("check", "metrics", text=expose())

    def test_the_rules(self):
        self.accepts("check", "rules", ALERTS)

    def plays(self, *tests):
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"rule_files": [ALERTS], "evaluation_interval": "1m", "tests": tests}, file)
            file.flush()
            self.accepts("test", "rules", file.name)

    def test_each_alert_comes_when_it_should(self):
        self.plays(*[play(alert, changes) for alert, changes in [(None, {}), *AILING.items()]])

    @unittest.skipUnless(HOUR, "there is no simulator without lua")
    def test_standbys_are_silent(self):
        """Also while the leader restarts, dies, and releases the lock."""
        self.plays(*[expect(scene, lambda minute: []) for scene in ("standby", "unlimited")])

    @unittest.skipUnless(HOUR, "there is no simulator without lua")
    def test_jobs_behind_a_stuck_one_are_not(self):
        """Whether they wait at each look (2) or have timed out before it (1). The job hangs at
        minute 10; a quarter of an hour later nothing has been granted for that long, and after
        another one the alert fires."""
        stuck = [("LockwireStuck", "1"), ("LockwireStuck", "2"), ("LockwireTimeouts", "1")]
        self.plays(expect("stuck", lambda minute: [] if minute < 18 else
                          [stuck[2]] if 24 < minute < 37 else stuck if minute > 42 else None))


if __name__ == "__main__":
    unittest.main()
