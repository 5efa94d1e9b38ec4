// All that is needed stands in context.h.
#pragma once
#include <gloo/context.h>
