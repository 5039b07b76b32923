/* SPDX-License-Identifier: MIT */
/* Shared by the files of the cluster's scene only. */
#ifndef TEST_CLUSTER_SCENE_INSIDE_H
#define TEST_CLUSTER_SCENE_INSIDE_H
#include "cluster_scene.h"

extern const struct lw__route_events scene_route_events;
void scene_on_message(void *arg, const char *text, size_t length);

/* Replaces names by addresses. */
void with_addresses(const struct scene *scene, const char *text, char *ret, size_t size);
#endif
