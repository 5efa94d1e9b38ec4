// Stands in for Gloo's header common/error.h, which ProcessGroupGloo.hpp includes. context.h has
// all declarations that are needed.
#pragma once
#include <gloo/context.h>
