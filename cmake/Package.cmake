# What a wheel and a Debian package hold. The files lie as in a site-packages folder, and find LibTorch and Apache Arrow
# beside them, in torch/lib and pyarrow, so that both packages hold the same files:
#   colossal/bin/colossal  colossal/lib/libcolossal.so.N  colossal/lib/libcolossal_arrow.so    component program
#   colossal/_core.*.so  colossal/_core.pyi  colossal/_c10d.*.so                                component python
set_target_properties(colossal_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../../torch/lib")
set_target_properties(colossal PROPERTIES INSTALL_RPATH "$ORIGIN/../../torch/lib")
install(TARGETS colossal_cli RUNTIME DESTINATION colossal/bin COMPONENT program)
install(TARGETS colossal LIBRARY DESTINATION colossal/lib COMPONENT program NAMELINK_SKIP)
if(TARGET colossal_arrow)
  set_target_properties(colossal_arrow PROPERTIES INSTALL_RPATH "$ORIGIN/../../pyarrow")
  install(TARGETS colossal_arrow LIBRARY DESTINATION colossal/lib COMPONENT program)
endif()
if(TARGET colossal_python)
  set_target_properties(colossal_python colossal_c10d PROPERTIES INSTALL_RPATH "$ORIGIN/lib;$ORIGIN/../torch/lib")
  install(TARGETS colossal_python colossal_c10d LIBRARY DESTINATION colossal COMPONENT python)
  install(FILES ${CMAKE_BINARY_DIR}/python/colossal/_core.pyi DESTINATION colossal COMPONENT python)
endif()
