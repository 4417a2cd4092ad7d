import Glibc

/// The type of a link in sysfs: "wlan", "wwan", "bridge"; "" if it has none.
enum DeviceType {
    static func of(_ link: KernelLink, in tree: String = "/sys/class/net") -> String {
        guard !link.name.isEmpty, !link.name.contains("/"), let file = fopen("\(tree)/\(link.name)/uevent", "re") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = fread(&bytes, 1, bytes.count, file)
        let lines = String(decoding: bytes.prefix(count), as: UTF8.self).split(separator: "\n")
        // This sysfs may belong to another network namespace, with other links under the same names.
        guard lines.contains("IFINDEX=\(link.index)") else { return "" }
        let prefix = "DEVTYPE="
        return lines.first { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) } ?? ""
    }
}
