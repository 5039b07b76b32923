# SPDX-License-Identifier: MIT
"""Tests the bench's arithmetic, verdicts and estimates of time, on rows with known answers.

    python3 test_rows.py"""
import argparse
import array
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../test/lib")]
import cases  # noqa: E402
import cores  # noqa: E402
import measure  # noqa: E402
import programs  # noqa: E402
import readme  # noqa: E402
import rows  # noqa: E402
import runner  # noqa: E402
import summary  # noqa: E402
import targets  # noqa: E402

MS = 1_000_000


def process(*table):
    """Returns the rows of one process; times in ms."""
    values = array.array("q")
    for slot, *times in table:
        values.extend([slot] + [round(t * MS) for t in times])
    return rows.Rows(values)


def line(**facts):
    return dict({"start_ns": 0, "seconds": 1.0, "slots": 2}, **facts)


class Arithmetic(unittest.TestCase):
    def drain_of(self, order):
        """One process: waiter i requests at time i, and is granted at its place in `order`."""
        table = [(i, 1 + i, 100 + 2 * order.index(i), 101 + 2 * order.index(i), 200)
                 for i in range(len(order))]
        return rows.drain([process(*table)], [line(slots=len(order))])

    def test_fifo_has_no_disorder(self):
        self.assertEqual(self.drain_of([0, 1, 2, 3])["disorder"], 0)

    def test_the_youngest_first_is_complete_disorder(self):
        self.assertAlmostEqual(self.drain_of([3, 2, 1, 0])["disorder"], 1)

    def test_one_overtaking_counts_once(self):
        self.assertAlmostEqual(self.drain_of([1, 0, 2])["disorder"], 1 / 3 / 1)

    def test_rate_of_a_drain_is_from_first_request_to_last_release(self):
        figures = rows.drain([process((0, 10, 20, 20, 21), (1, 10, 30, 35, 36))], [line()])
        self.assertAlmostEqual(figures["rate"], 2 / 0.025)
        self.assertEqual(figures["wait_max_us"], 20000)

    def test_sets_that_wait_far_longer_than_the_mean_are_starved(self):
        table = [(0, i, i + 1, i + 2, i + 3) for i in range(1, 61)]
        figures = rows.several([process(*table, (1, 100, 0, 0, 0))], [line()])
        self.assertEqual((figures["grants"], figures["rate"], figures["without"]), (60, 60, 1))
        self.assertEqual((figures["wait_p50_us"], figures["starved"]), (1000, 1))
        self.assertEqual((figures["longest_us"], figures["of_mean"]), (900000, 900))

    def test_who_was_not_granted_is_without(self):
        figures = rows.drain([process((0, 1, 2, 3, 4), (1, 1, 0, 0, 0))], [line()])
        self.assertEqual((figures["grants"], figures["without"]), (1, 1))

    def test_two_holds_at_once_are_seen(self):
        overlapping = [process((0, 1, 2, 5, 6)), process((0, 1, 4, 7, 8))]
        self.assertEqual(rows.drain(overlapping, [line(), line()])["overlaps"], 1)
        apart = [process((0, 1, 2, 3, 6)), process((0, 1, 4, 7, 8))]
        self.assertEqual(rows.drain(apart, [line(), line()])["overlaps"], 0)

    def test_pairs_asked_before_the_start_do_not_count(self):
        figures = rows.uncontended([process((0, 5, 6, 6, 7), (0, 11, 12, 12, 14))],
                                   [line(start_ns=10 * MS)])
        self.assertEqual((figures["grants"], figures["pair_p50_us"]), (1, 3000))

    def test_changes_of_owner_and_those_still_waiting(self):
        one = process((0, 1, 2, 3, 4), (0, 4, 5, 6, 7), (1, 1, 0, 0, 0))
        figures = rows.closed_loop([one, process((0, 1, 8, 9, 9))], [line(), line(slots=1)])
        self.assertEqual((figures["grants"], figures["changes"], figures["crossings"]),
                         (3, 1, 1))
        self.assertEqual(figures["without"], 1)
        self.assertEqual(figures["longest_us"], 999_000)

    def test_notification_is_from_release_to_a_grant_elsewhere(self):
        first = process((0, 1, 2, 4, 5), (0, 5, 9, 10, 11))
        second = process((0, 3, 6, 8, 8))
        figures = rows.notify([first, second], [line(), line()])
        self.assertEqual((figures["grants"], figures["notify_p50_us"]), (2, 2000))

    def test_a_round_is_a_name_of_its_own(self):
        """A round's grant during the hold of the round before is neither a hand-over nor a fault
        of the lock."""
        first = process((1, 1, 2, 4, 5), (2, 5, 6, 9, 9))
        second = process((1, 3, 7, 8, 8), (2, 8, 10, 11, 11))
        figures = rows.notify([first, second], [line(), line()])
        self.assertEqual((figures["grants"], figures["overlaps"]), (2, 0))
        self.assertEqual((figures["notify_p50_us"], figures["notify_max_us"]), (3000, 3000))
        twice = process((1, 3, 3.5, 8, 8))
        self.assertEqual(rows.notify([first, twice], [line(), line()])["overlaps"], 1)

    def test_a_closed_loop_is_in_order_where_each_round_is(self):
        fair = process((0, 1, 2, 3, 3), (1, 1, 4, 5, 5), (0, 3, 6, 7, 7), (1, 5, 8, 9, 9))
        self.assertEqual(rows.closed_loop([fair], [line()])["disorder"], 0)
        late = process((0, 1, 4, 5, 5), (1, 2, 3, 4, 4), (1, 4, 6, 7, 7), (0, 5, 8, 9, 9))
        self.assertAlmostEqual(rows.closed_loop([late], [line()])["disorder"], 1 / 4)

    def test_a_gap_is_from_a_release_to_the_next_grant(self):
        one = process((0, 1, 2, 3, 3), (1, 1, 5, 6, 6), (0, 3, 0, 0, 0))
        other = process((0, 1, 3.5, 4, 4), (0, 4, 9, 10, 10))
        figures = rows.closed_loop([one, other], [line(), line(slots=1)])
        self.assertEqual((figures["gap_p50_us"], figures["gap_max_us"]), (1000, 3000))
        self.assertEqual(figures["overtakers"], 2)

    def test_no_samples_are_no_figures(self):
        self.assertIsNone(rows.notify([process((0, 1, 0, 0, 0))], [line()])["notify_p50_us"])


class Medians(unittest.TestCase):
    def row(self, label, repeat, **figures):
        return {"section": "U", "size": 1, "processes": 1, "label": label,
                "repeat": repeat, "figures": figures}

    def test_ratios_are_of_the_same_repeat(self):
        view = summary.Summary([self.row("a", 1, rate=10), self.row("b", 1, rate=100),
                                self.row("a", 2, rate=1), self.row("b", 2, rate=10),
                                self.row("a", 3, rate=5), self.row("b", 3, rate=10)])
        self.assertAlmostEqual(view.ratio(("U", 1, 1), "a", "b"), 0.1)

    def test_what_counts_commands_is_not_timed(self):
        view = summary.Summary([self.row("a", 0, commands=2.0, rate=1),
                                self.row("a", 1, commands=7.0, rate=9)])
        self.assertEqual(view.median(("U", 1, 1), "a", "commands"), 2)
        self.assertEqual(view.median(("U", 1, 1), "a", "rate"), 9)


class Verdicts(unittest.TestCase):
    """Rows of one repeat; a target is found by the beginning of its text."""

    def verdict(self, begins, rates, compares=None, key=("U", 256, 1), figure="rate",
                grants=0):
        section, size, processes = key
        view = summary.Summary([
            {"section": section, "size": size, "processes": processes, "label": label,
             "repeat": 1, "figures": {figure: value, "grants": grants}}
            for label, value in rates.items()])
        found = [met for met, what, _ in targets.judge(view, None, compares)
                 if what.startswith(begins)]
        return found[0] if len(found) == 1 else found

    def test_uncontended_targets_are_those_of_the_kind_of_server(self):
        rates = {"limit plain": 100, "lockwire nofence": 140, "lockwire default": 120}
        for what in ("without", "with"):
            begins = "U C=256 %s fence, of the script limit" % what
            self.assertTrue(self.verdict(begins, rates))
            self.assertFalse(self.verdict(begins, rates, "DELIFEQ"))

    def test_the_servers_own_compare_and_delete_is_a_limit_too(self):
        begins = "U C=256 without fence, of limit delifeq"
        rates = {"limit delifeq": 100, "lockwire nofence": 92}
        self.assertFalse(self.verdict(begins, rates, "DELEX"))
        self.assertTrue(self.verdict(begins, {**rates, "lockwire nofence": 94}, "DELEX"))
        self.assertEqual(self.verdict(begins, {"lockwire nofence": 94}), [])

    def test_the_best_of_all_peers_is_to_be_behind_at_every_c(self):
        rates = {"slow default": 1, "fast default": 101, "lockwire nofence": 102,
                 "lockwire default": 100}
        for clients in (1, 16, 256):
            begins, key = "U C=%d %%s fence, of the best peer" % clients, ("U", clients, 1)
            self.assertTrue(self.verdict(begins % "without", rates, key=key))
            self.assertFalse(self.verdict(begins % "with", rates, key=key))

    def test_over_tls_the_target_is_of_the_raw_program_over_tls(self):
        rates = {"limit plain": 200, "limit tls": 100, "lockwire tls-nofence": 84,
                 "lockwire tls": 86}
        for what, met in (("without", False), ("with", True)):
            self.assertEqual(met, self.verdict("U over TLS C=16 %s fence" % what, rates,
                                               key=("tls", 16, 1)))

    def test_a_closed_loop_must_be_in_order_as_a_drain(self):
        for section in "DL":
            begins, key = section + " W=50 turns off: disorder", (section, 50, 2)
            for value, met in ((0.02, True), (0.03, False)):
                self.assertEqual(met, self.verdict(begins, {"lockwire noturns": value},
                                                   key=key, figure="disorder"))

    def test_commands_of_a_closed_loop_count_after_many_rounds(self):
        begins, rates = " W=50 turns off: commands", {"lockwire noturns": 2.3}
        for section, grants, judged in (("D", 50, True), ("L", 100, False), ("L", 500, True)):
            found = self.verdict(section + begins, rates, key=(section, 50, 2),
                                 figure="commands", grants=grants)
            self.assertEqual(found, False if judged else [])

    def test_flat_is_by_the_limit_of_the_same_w(self):
        def met(*rates):
            view = summary.Summary([
                {"section": "D", "size": size, "processes": 2, "label": label, "repeat": 1,
                 "figures": {"rate": rate}}
                for size, *both in rates
                for label, rate in zip(("limit handover", "lockwire noturns"), both)])
            return [met for met, what, _ in targets.judge(view, None, None) if "flat" in what]

        self.assertEqual(met((50, 100, 80), (500, 20, 16)), [True])
        self.assertEqual(met((50, 100, 80), (500, 100, 59)), [False])
        self.assertEqual(met((50, 100, 80)), [])

    def test_the_first_contended_release_of_a_name_is_judged_by_its_own_limit(self):
        rates = {"limit handover": 100, "lockwire default": 124, "limit first": 200}
        for first, met in ((249, True), (251, False)):
            for begins, expected in (("N p50", True), ("N at a name's first release p50", met)):
                self.assertEqual(expected, self.verdict(
                    begins, {**rates, "lockwire first": first}, key=("N", 2, 2),
                    figure="notify_p50_us"))


class Subjects(unittest.TestCase):
    COMPARING = {"limit delifeq", "limit delifeq-fence"}
    OVER_TLS = {"limit tls", "lockwire tls", "lockwire tls-nofence"}

    def found(self, compares="DELEX", server_has_tls=True, build_has_tls=True):
        """Returns the subjects that can be measured, the labels of COMPARING and OVER_TLS among
        them, and the missing ones with the reasons."""
        subjects, missing = programs.own("", {"name": "Redis 1", "compares": compares,
                                              "tls": server_has_tls}, build_has_tls)
        labels = {subject.label for subject in subjects}
        return subjects, labels & (self.COMPARING | self.OVER_TLS), missing

    def test_a_server_that_cannot_compare_is_not_asked_to(self):
        for command in (None, "DELEX"):
            _, there, missing = self.found(compares=command)
            self.assertEqual(there & self.COMPARING, self.COMPARING if command else set())
            self.assertEqual(set(missing), self.COMPARING - there)

    def test_where_tls_is_missing_it_is_said_of_whom(self):
        for absent, who in (({"build_has_tls": False}, "the build has no TLS"),
                            ({"server_has_tls": False}, "Redis 1 was built without TLS")):
            _, there, missing = self.found(**absent)
            self.assertEqual((there, set(missing)), (self.COMPARING, self.OVER_TLS))
            self.assertTrue(all(why.startswith(who) for why in missing.values()))

    def test_over_tls_and_without_are_measured_in_the_same_passes(self):
        options = argparse.Namespace(only=["tls"], seconds=1, repeats=2)
        planned = cases.plan(options, self.found()[0])
        self.assertEqual([case.label for case in planned],
                         ["tls C=1", "tls C=16", "tls C=256"])
        for runs in zip(*[iter(cases.one_pass(planned, 1))] * 6):
            self.assertEqual({run.subject.label for run, in runs},
                             self.OVER_TLS | {"limit plain", "lockwire default",
                                              "lockwire nofence"})
        self.assertEqual(cases.plan(options, self.found(build_has_tls=False)[0]), [])

    def test_without_being_asked_for_nothing_is_over_tls(self):
        options = argparse.Namespace(only=["U"], seconds=1, repeats=2, quick=False)
        for case in cases.plan(options, self.found()[0]):
            self.assertFalse([s.label for s in case.subjects if s.tls])


class Cores(unittest.TestCase):
    def pinned(self, placement, usable=(3, 5, 7)):
        with mock.patch("os.sched_getaffinity", return_value=set(usable)):
            return cores.server(placement), cores.clients(placement), cores.missing(placement)

    def test_each_side_has_the_cores_of_its_placement(self):
        first, last = ["taskset", "-c", "3"], ["taskset", "-c", "7"]
        self.assertEqual(self.pinned(cores.FREE), ([], [], None))
        self.assertEqual(self.pinned(cores.SPLIT), (first, last, None))
        self.assertEqual(self.pinned(cores.ONE), (first, first, None))

    def test_one_core_cannot_be_split(self):
        missing = {placement: self.pinned(placement, [3])[2]
                   for placement in (cores.FREE, cores.SPLIT, cores.ONE)}
        self.assertEqual([placement for placement, why in missing.items() if why], [cores.SPLIT])

    def test_the_server_and_every_client_start_there(self):
        class Started(Exception):
            pass

        subject = programs.Subject("lockwire", "lockwire", "default", ["program", "WORKLOAD"])
        case = cases.Case("split", "U", 2, processes=2, cores=cores.SPLIT, subjects=[subject])
        server = mock.MagicMock()
        server.return_value.__enter__.return_value.ca = None
        server.return_value.__exit__.return_value = False
        with mock.patch("os.sched_getaffinity", return_value={3, 7}), \
                mock.patch("measure.Server", server), \
                mock.patch("measure.Process") as process:
            process.side_effect = [mock.MagicMock(), Started]
            self.assertRaises(Started, measure.run, case, subject, False)
        self.assertEqual(server.call_args.args, (["taskset", "-c", "3"],))
        for call in process.call_args_list:
            self.assertEqual(call.args[0][:4], ["taskset", "-c", "7", "program"])

    def test_limits_lockwire_and_peers_are_placed_alike(self):
        subjects = list(programs.own("", {"name": "Redis 1", "compares": None, "tls": False},
                                     False)[0])
        subjects.append(programs.Subject("peer", "a", "default", []))
        options = argparse.Namespace(only=["U", "split", "one"], seconds=1, repeats=1, quick=False)
        planned = cases.plan(options, subjects)
        self.assertEqual([(case.label, case.cores) for case in planned], [
            ("%s C=%d" % (section, clients), placement)
            for section, placement in (("U", "free"), ("split", "split"), ("one", "one"))
            for clients in (1, 16, 256)])
        for case in planned:
            self.assertLessEqual({"limit plain", "lockwire default", "lockwire nofence",
                                  "a default"}, {s.label for s in case.subjects})

    def test_the_readme_has_the_placements_if_they_were_measured(self):
        def lines(*sections):
            rows_ = [{"section": section, "size": 1, "processes": 1, "label": "limit plain",
                      "repeat": 1, "figures": {"rate": 7}} for section in sections]
            facts = dict.fromkeys(("date", "cores", "cpu", "system"), 0)
            return readme.text({"machine": facts, "rows": rows_, "server": {"name": ""},
                                "transport": "", "repeats": 1}, summary.Summary(rows_))

        row = "| limit plain | 7 | 7 |  |" + "  |" * 6
        self.assertEqual(lines("U", "split").count(row), 1)
        self.assertFalse([line for line in lines("U") if "split" in line])


class Passes(unittest.TestCase):
    """A run of one point: lockwire takes 10 s, and each of three peers 20 s."""

    def runner(self, folder, minutes):
        ours = programs.Subject("lockwire", "lockwire", "default", [])
        peers = [programs.Subject("peer", name, "default", []) for name in "abc"]
        case = cases.Case("U", "U", 1, repeats=5, subjects=[ours] + peers)
        options = argparse.Namespace(resume=False, minutes=minutes, quick=False, unix=False)
        made = runner.Runner(options, [case], {}, os.path.join(folder, "rows"))
        for subject in case.subjects:
            made.pace.note(cases.Run(1, case, subject), 10 if subject is ours else 20)
        return made

    def peers_in(self, minutes):
        with tempfile.TemporaryDirectory() as folder:
            made = self.runner(folder, minutes)
            passes = made._passes_left(2)
            made.log.file.close()
            return [sum(run.of_a_peer for runs in one for run in runs) for one in passes]

    def test_peers_have_the_repeats_that_the_time_allows(self):
        self.assertEqual(self.peers_in(10), [3, 3, 3, 3])
        self.assertEqual(self.peers_in(3), [3, 3, 0, 0])
        self.assertEqual(self.peers_in(0.1), [0, 0, 0, 0])

    def test_a_resumed_run_knows_its_rows_and_no_other_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows")
            log = runner.Log(path, {"of": 1}, False)
            log.add({"family": "peer", "error": "it hangs"})
            log.add({"family": "lockwire", "error": "is tried again"})
            log.add({"family": "limit", "figures": {}})
            log.file.write('{"cut')
            log.file.close()
            again = runner.Log(path, {"of": 1}, True)
            again.file.close()
            self.assertEqual([row["family"] for row in again.rows], ["peer", "limit"])
            once_more = runner.Log(path, {"of": 1}, True)
            once_more.file.close()
            self.assertEqual(once_more.rows, again.rows)
            longer = runner.Log(path, {"of": 1, "minutes": 60}, True)
            longer.file.close()
            self.assertEqual(longer.rows, again.rows)
            with self.assertRaises(ValueError):
                runner.Log(path, {"of": 2}, True)


if __name__ == "__main__":
    unittest.main()
