/// The first 100 characters of a body as text.
package enum Preview {
    package static let characters = 100

    /// Never cut inside a character; bytes that are not UTF-8 show as replacement characters, line breaks as they are.
    package static func make(_ body: some Collection<UInt8>) -> String {
        // A character may be long (an emoji family has 25 bytes), but not without end: a hostile one must not make a page of
        // previews as large as the bodies.
        let start = body.prefix(characters * 32)
        var preview = String(String(decoding: start, as: UTF8.self).prefix(characters))
        // Where the start itself cut a character, that one is left out.
        if start.count < body.count, preview.count < characters { preview = String(preview.dropLast()) }
        preview.unicodeScalars.removeAll { $0.value == 0 }
        return preview
    }
}
