// Runs metascraper: a page in a line of JSON, and its fields in another.
import { createInterface } from 'node:readline'
import metascraper from 'metascraper'
import description from 'metascraper-description'
import image from 'metascraper-image'
import logo from 'metascraper-logo'
import publisher from 'metascraper-publisher'

const read = metascraper([publisher(), description(), image(), logo()])
for await (const line of createInterface({ input: process.stdin })) {
  const { url, html } = JSON.parse(line)
  let fields = {}
  try {
    const found = await read({ url, html, validateUrl: false })
    fields = { name: found.publisher, description: found.description, image: found.image, logo: found.logo }
  } catch (error) {
    fields = { error: String(error) }
  }
  process.stdout.write(JSON.stringify(fields) + '\n')
}
