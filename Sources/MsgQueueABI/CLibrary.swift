/// The Swift runtime's module of the C library refers to `hypotf`, which in the C library has the version GLIBC_2.35. Nothing calls it.
/// This definition, which the library does not export, keeps the library loadable with glibc 2.34.
@_cdecl("hypotf")
func hypotf(_ x: Float, _ y: Float) -> Float {
    Float((Double(x) * Double(x) + Double(y) * Double(y)).squareRoot())
}
