/// The first 100 characters of a body as text.
package enum Preview {
    package static let characters = 100

    /// What is read of a body for it. A character may be long (a family in emoji has 25 bytes, a kiss with two skin tones 35),
    /// but not without end: a hostile one must not make a page of previews as large as the bodies.
    package static let bytes = characters * 64

    /// Never cut inside a character; bytes that are not UTF-8 show as replacement characters, line breaks as they are.
    package static func make(_ body: some Collection<UInt8>) -> String {
        var start = Array(body.prefix(bytes))
        var preview: Substring
        if start.count < body.count {
            // The start itself may have cut a character, which is then left out, whether it shows or not.
            dropCutScalar(&start)
            preview = String(decoding: start, as: UTF8.self).dropLast().prefix(characters)
        } else {
            preview = String(decoding: start, as: UTF8.self).prefix(characters)
        }
        preview.unicodeScalars.removeAll { $0.value == 0 }
        return String(preview)
    }

    /// Removes the bytes at the end that begin a scalar but do not finish it.
    private static func dropCutScalar(_ bytes: inout [UInt8]) {
        for back in 1...3 {
            guard let byte = bytes.dropLast(back - 1).last else { return }
            if byte & 0xc0 == 0x80 { continue }
            let length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
            if length > back { bytes.removeLast(back) }
            return
        }
    }
}
