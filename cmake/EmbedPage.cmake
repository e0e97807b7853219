# ebbtide_embed_page(<target>): makes report/page_texts.h, the parts of src/report/page, so that the program needs no
# files beside it.
function(ebbtide_embed_page target)
  set(folder ${PROJECT_SOURCE_DIR}/src/report/page)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${folder}/page.html ${folder}/page.css ${folder}/page.js)
  foreach(part IN ITEMS html css js)
    file(READ ${folder}/page.${part} page_${part})
  endforeach()
  set(text "// Made from src/report/page by cmake/EmbedPage.cmake.\n#pragma once\n\nnamespace ebbtide::report {\n\n")
  string(APPEND text "inline constexpr char kPageHtml[] = R\"page(${page_html})page\";\n")
  string(APPEND text "inline constexpr char kPageCss[] = R\"page(${page_css})page\";\n")
  string(APPEND text "inline constexpr char kPageJs[] = R\"page(${page_js})page\";\n")
  string(APPEND text "\n}  // namespace ebbtide::report\n")
  file(GENERATE OUTPUT ${EBBTIDE_GENERATED}/report/page_texts.h CONTENT "${text}")
  target_include_directories(${target} PRIVATE ${EBBTIDE_GENERATED})
endfunction()
