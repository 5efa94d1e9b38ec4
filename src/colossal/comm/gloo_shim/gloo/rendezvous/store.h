// Stands in for Gloo's header rendezvous/store.h, which ProcessGroupGloo.hpp includes. context.h
// has all declarations that are needed.
#pragma once
#include <gloo/context.h>
