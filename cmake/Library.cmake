# All layers in one shared library, installed with its headers and a package for
# find_package(colossal).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY colossal_layers)
foreach(layer ${layers})
  get_target_property(linked ${layer} LINK_LIBRARIES)
  list(APPEND libraries ${linked})
endforeach()
list(FILTER libraries EXCLUDE REGEX "^colossal_")
list(REMOVE_DUPLICATES libraries)
list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(colossal SHARED ${objects})
set_target_properties(colossal PROPERTIES LINKER_LANGUAGE CXX SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_libraries(colossal PRIVATE colossal_flags ${libraries}
  PUBLIC colossal_torch fmt::fmt nlohmann_json::nlohmann_json)
target_link_options(colossal PRIVATE -Wl,-z,defs)
target_include_directories(colossal PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(colossal PUBLIC cxx_std_20)

install(TARGETS colossal colossal_torch EXPORT colossal
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET colossal_arrow)
  install(TARGETS colossal_arrow LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/colossal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(EXPORT colossal NAMESPACE colossal:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/colossal
  FILE colossalTargets.cmake)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/colossalConfig.cmake.in
  ${PROJECT_BINARY_DIR}/colossalConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/colossal)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/colossalConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/colossalConfig.cmake
  ${PROJECT_BINARY_DIR}/colossalConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/colossal)
