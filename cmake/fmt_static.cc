// The parts of fmt that its headers declare and leave to its library, for links without that library.
#include <fmt/format-inl.h>

namespace fmt {
inline namespace v9 {
namespace detail {
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float);
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double);
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template thousands_sep_result<wchar_t> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template wchar_t decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
template void buffer<wchar_t>::append(const wchar_t*, const wchar_t*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<format_context>, locale_ref);
}  // namespace detail
#ifdef FMT_STATIC_THOUSANDS_SEPARATOR
#error "expected fmt with locales"
#endif
template detail::locale_ref::locale_ref(const std::locale&);
template std::locale detail::locale_ref::get<std::locale>() const;
}  // namespace v9
}  // namespace fmt
