// Files that the page hands to the user.

/** Save `content` as a file. */
export function download(name: string, type: string, content: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Put `content` on the clipboard; where a page may not do that, save it as a file. True if it is on the clipboard. */
export async function copy(content: string, name: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(content);
    return true;
  } catch {
    download(name, "text/plain", content);
    return false;
  }
}
