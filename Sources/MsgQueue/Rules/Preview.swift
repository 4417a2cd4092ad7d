/// The first 100 characters of a body as text.
package enum Preview {
    package static let characters = 100

    /// The number of bytes of a body that are read. One character can have many bytes (an emoji of a family has 25), but its length is
    /// limited here: otherwise malicious bodies could make a page of previews as large as the bodies.
    package static let bytes = characters * 64

    /// Returns the preview of a body. It is cut between characters; invalid UTF-8 becomes replacement characters; line breaks stay.
    package static func make(_ body: some Collection<UInt8>) -> String {
        if let plain = makePlain(body) { return plain }
        var start = Array(body.prefix(bytes))
        let preview: Substring
        if start.count < body.count {
            // The limit of bytes may have cut the last character, so it is always omitted.
            dropCutScalar(&start)
            preview = String(decoding: start, as: UTF8.self).dropLast().prefix(characters)
        } else {
            preview = String(decoding: start, as: UTF8.self).prefix(characters)
        }
        guard start.contains(0) else { return String(preview) }
        return String(decoding: preview.utf8.filter { $0 != 0 }, as: UTF8.self)
    }

    /// Returns the preview of a body that begins with ASCII text, in which every byte is a character; nil: it begins with something else.
    private static func makePlain(_ body: some Collection<UInt8>) -> String? {
        // The byte after the preview could belong to its last character.
        let start = body.prefix(characters + 1)
        // A carriage return and a line feed are one character.
        guard start.allSatisfy({ $0 < 0x80 && $0 != 0 && $0 != 0x0d }) else { return nil }
        return String(decoding: start.prefix(characters), as: UTF8.self)
    }

    /// Removes an incomplete scalar at the end.
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
