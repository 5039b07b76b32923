#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Puts the manual's pages, as they are built, into a tarball, whose reader then needs no scdoc.
# Usage: dist.sh BUILD_FOLDER, by meson
set -eu

built=$MESON_DIST_ROOT/src/man/built
ninja -C "$MESON_BUILD_ROOT" manual >/dev/null
mkdir "$built"
cp "$1"/*.[137] "$built"
