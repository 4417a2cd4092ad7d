/// The Swift runtime's C library module refers to `hypotf`, which in the C library has the version GLIBC_2.35, but nothing calls it. This
/// definition is not exported and keeps the library loadable with glibc 2.34.
@_cdecl("hypotf")
func hypotf(_ x: Float, _ y: Float) -> Float {
    Float((Double(x) * Double(x) + Double(y) * Double(y)).squareRoot())
}
