#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/order.c: orders that share articles take all or nothing, in whatever sequence
they name the articles.

Many orders run at once; the stock adds up, and nothing stays locked.
"""
import random
import unittest

from scene import ExampleTest


class Order(ExampleTest):
    source = "order.c"

    def arguments(self):
        return self.folder, "nail", "1"

    def stock(self, **articles):
        for article, count in articles.items():
            with open(self.path(article), "w", encoding="ascii") as file:
                file.write(f"{count} 0\n")

    def left(self, article):
        with open(self.path(article), encoding="ascii") as file:
            return int(file.read().split()[0])

    def order(self, **articles):
        return self.start(self.folder, *(str(word) for item in articles.items() for word in item))

    def test_all_or_nothing(self):
        self.stock(nail=10, plank=3, glue=1)
        self.assertEqual(self.end_of(self.order(plank=3, nail=4)), (0, "ordered\n", ""))
        self.assertEqual(self.end_of(self.order(nail=1, plank=1, glue=1)),
                         (1, "", "plank: not enough of it\n"))
        self.assertEqual(self.end_of(self.order(glue=1, rope=1)),
                         (1, "", "rope: no such article\n"))
        self.assertEqual([self.left(name) for name in ("nail", "plank", "glue")], [6, 0, 1])

    def test_orders_at_the_same_time(self):
        names = ["nail", "plank", "glue", "rope", "wire"]
        self.stock(**dict.fromkeys(names, 12))
        drawn = random.Random(1)
        orders = [dict.fromkeys(drawn.sample(names, 3), 1) for _ in range(30)]
        running = [self.order(**order) for order in orders]
        codes = [self.end_of(process)[0] for process in running]
        for name in names:
            taken = sum(code == 0 and name in order for code, order in zip(codes, orders))
            self.assertEqual(self.left(name), 12 - taken)
        self.assertGreaterEqual(codes.count(0), 12)
        self.assertEqual(self.server("EXISTS", *(f"stock:{name}" for name in names)), 0)

    def test_a_larger_token_refuses_the_order(self):
        self.stock(nail=10)
        with open(self.path("nail"), "w", encoding="ascii") as file:
            file.write("10 18446744073709551615\n")
        self.assertEqual(self.end_of(self.order(nail=1)), (
            1, "", "nail: a later order has changed it: the locks were lost\n"))
        self.assertEqual(self.left("nail"), 10)

    def test_an_article_named_twice(self):
        code, _, err = self.end_of(self.start(self.folder, "nail", "1", "nail", "2"))
        self.assertEqual(code, 1)
        self.assertIn("names[0] and names[1] are the same", err)


del ExampleTest  # its tests are for the subclasses
if __name__ == "__main__":
    unittest.main()
