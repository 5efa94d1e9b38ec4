// Holds the precompiled header; see Layer.cmake.
