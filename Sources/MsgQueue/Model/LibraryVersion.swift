/// The version of the library, as in the header.
package enum LibraryVersion {
    package static let text = "0.2.0"
}
