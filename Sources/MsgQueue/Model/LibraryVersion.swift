/// The version of the library, as in the header.
package enum LibraryVersion {
    package static let text = "0.2.0"
    /// 2026-01-01, in milliseconds since 1970: this version was not released before. A wall clock that shows an earlier time is wrong.
    package static let notBefore: Int64 = 1_767_225_600_000
}
